// What a page asks before the first task: whether the rater agrees, and about the rater.

const [asksConsent, backgroundCount] = packet.about;
const asksAbout = asksConsent || backgroundCount > 0;
const blankAbout = () => ({ agreed: false, background: Array(backgroundCount).fill("") });
let about = blankAbout();

const fieldsOf = (place) => [...document.querySelectorAll(`#about [name="about-${place}"]`)];

function drawAbout() {
  if (asksConsent) byId("agree").checked = about.agreed;
  about.background.forEach((answer, place) => {
    for (const field of fieldsOf(place)) {
      if (field.type === "radio") field.checked = field.value === answer;
      else if (field.value !== answer) field.value = answer;
    }
  });
}

function readAbout() {
  if (asksConsent) about.agreed = byId("agree").checked;
  about.background = about.background.map((_, place) => {
    const fields = fieldsOf(place);
    const chosen = fields[0].type === "radio" ? fields.find((field) => field.checked) : fields[0];
    return (chosen?.value ?? "").replace(/[\ud800-\udfff]/gu, "\ufffd").slice(0, 500);
  });
}

// True if the rater may begin; else it is said what is missing.
function mayBegin() {
  const open = asksConsent && !about.agreed;
  if (asksConsent) byId("agree-first").hidden = !open;
  if (open) byId("agree").focus();
  return !open;
}

// Of two computers: what was given on either.
const joinedAbout = (other) => ({ agreed: about.agreed || other.agreed,
  background: about.background.map((answer, place) => answer || other.background[place]) });

// Without agreement nothing is kept or sent, and that it was withdrawn is.
if (asksAbout) byId("about").addEventListener("input", () => {
  const before = about.agreed;
  readAbout();
  if (about.agreed) mayBegin();
  if (!asksConsent || about.agreed || before) changed();
});
