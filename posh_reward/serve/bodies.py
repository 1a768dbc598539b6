"""Bodies of the app's requests and replies, with their published schema."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from posh_reward.serve.refusals import UNKNOWN

MOST_ROWS = 4096
"""Most rows of a request; as objects, a body of empty rows would take gigabytes."""
# Any value passes validation: scoring gives a non-text its own failure.
Text = Annotated[Any, WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "null"}]})]
STRINGS = {"type": "array", "items": {"type": "string"}}
Texts = Annotated[Any, WithJsonSchema({"anyOf": [{"type": "string"}, STRINGS, {"type": "null"}]})]


class Body(BaseModel):
    """A JSON object that allows no other fields."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def refuse_unknown(cls, data: Any) -> Any:
        """Stop at the first unknown field, since pydantic would describe each of a million."""
        for place, name in enumerate(data if isinstance(data, dict) else ()):
            if name not in cls.model_fields:
                raise PydanticCustomError(UNKNOWN, "Extra inputs are not permitted", {"at": place})
        return data


class ScoreRow(Body):
    """A text and what it is scored against."""

    generation: Text = Field(None, description="The text to score.")
    reference: Texts = Field(None, description="The reference, or a list of them.")
    image: Text = Field(None, description="An image file in base64, if the metric looks at it.")
    question: Text = Field(None, description="The question that the text answers, if used.")


class ScoreRequest(Body):
    """Rows to score."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"rows": [{"generation": "A red dog.", "reference": "A brown dog sleeps."}]}
        }
    )
    rows: list[ScoreRow] = Field(max_length=MOST_ROWS)
    elements: bool = Field(False, description="Also return each graded element with its spans.")


class OpenRlhfRequest(Body):
    """OpenRLHF's request: prompts with their completions, prompts alone, references."""

    query: list[Text] = Field(max_length=MOST_ROWS)
    prompts: list[Text] = Field(max_length=MOST_ROWS)
    labels: list[Text] = Field(max_length=MOST_ROWS)


class OpenRlhfReply(BaseModel):
    """OpenRLHF's reply."""

    rewards: list[float]
    scores: list[float]
    extra_logs: dict[str, list[float]]


class SlimeRequest(BaseModel):
    """A sample from slime."""

    prompt: Any = None
    response: Text
    label: Text = None
