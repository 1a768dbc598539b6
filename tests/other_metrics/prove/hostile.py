"""Programs that mean harm, by what they try. Each is tried on both layers."""

OPENING = "def verify(sg):\n"


def body(*lines: str) -> str:
    return OPENING + "".join(f"    {line}\n" for line in lines)


def with_os(line: str) -> str:
    """A program that reaches the module os, as ``o``, through the classes that are loaded."""
    return body("for c in ().__class__.__base__.__subclasses__():",
                "    if c.__name__ == '_wrap_close':",
                "        o = c.__init__.__globals__",
                f"        return str({line})")  # fmt: skip


REFUSED = {
    "import": body("import os", "return os.listdir('/')"),
    "import from": body("from os import system", "return system('id')"),
    "import function": body("return __import__('os').getcwd()"),
    "import at the top": "import os\n" + body("return 1"),
    "import in an annotation": "def verify(sg: __import__('os').abort()):\n    return __x\n",
    "open": body("return open('/etc/passwd').read()"),
    "eval": body("return eval('1+1')"),
    "exec": body("exec('x = 1')", "return 1"),
    "getattr": body("return getattr(sg, '__class__')"),
    "globals": body("return globals()"),
    "type": body("return type(sg)"),
    "breakpoint": body("breakpoint()"),
    "input": body("return input()"),
    "builtins by name": body("return __builtins__['len']"),
    "class of an instance": body("return sg.__class__"),
    "private attribute": body("return sg._nodes"),
    "private attribute in wide letters": body("return sg._ｎodes"),  # noqa: RUF001
    "changing the graph": body("sg._nodes['ghost'] = 1", "return sg.get_entities()"),
    "subclasses": body("return ().__class__.__base__.__subclasses__()"),
    "globals of a method": body("return sg.describe.__globals__"),
    "code of a function": body("return verify.__code__"),
    "frames of a generator": body("g = (x for x in [1])", "return g.gi_frame.f_back"),
    "format": body("return '{0.__class__.__init__.__globals__}'.format(sg)"),
    "format_map": body("return '{a.__class__}'.format_map({'a': sg})"),
    "format as a value": body("f = '{0.__class__}'.format", "return f(sg)"),
    "width of a field": body("return f'{1:>999999999}'"),
    "repr of a field": body("return f'{sg!r}'"),
    "percent": body("return '%999999999d' % 1"),
    "repeat": body("return 'a' * 999999999"),
    "repeat by itself": body("x = 'ab'", "x *= 999999999", "return x"),
    "power": body("return 9 ** 9 ** 9"),
    "shift": body("return 1 << 99999999999"),
    "huge number": body("return 99999999999999999999"),
    "while": body("while True:", "    pass"),
    "recursion": body("return verify(sg)"),
    "function in a function": body("def f():", "    return f()", "return f()"),
    "class": body("class A(str): pass", "return A('x')"),
    "decorator": "@print\n" + body("return 1"),
    "default": "def verify(sg, x=[].append):\n    return 1\n",
    "star": "def verify(*sg):\n    return 1\n",
    "starred call": body("return max(*[1, 2])"),
    "keywords": body("return dict(**{'a': 1})"),
    "try": body("try:", "    return [][0]", "except Exception:", "    return 1"),
    "raise": body("raise SystemExit(0)"),
    "assert": body("assert False, 'x'"),
    "with": body("with sg as x:", "    return x"),
    "delete": body("del sg", "return 1"),
    "global": body("global len", "len = 1", "return len"),
    "yield": body("yield 1"),
    "async": "async def verify(sg):\n    return 1\n",
    "walrus": body("return [y := 1, y]"),
    "three loops in one": body("return [1 for a in [1] for b in range(999) for c in range(9)]"),
    "bytes": body("return b'x'.decode()"),
    "matrix product": body("return sg @ sg"),
    "two functions": body("return 1") + body("return 2"),
    "no function": "sg.get_entities()",
    "a thousand brackets": body("return " + "(" * 1500 + ")" * 1500),
    "a thousand signs": body("return " + "-" * 3000 + "1"),
    "deep lists": body("return " + "[" * 90 + "]" * 90),
    "long sum": body("return " + "+".join(["1"] * 1500)),
    "long": body("return 1") + "#" * 5000,
    "null": body("return '\0'"),
    "half a surrogate": body("return '\ud83d'"),
    "not python": "Here is the program: it returns the colour.",
    "empty": "",
    "unlink": with_os("o['unlink']({canary!r})"),
    "rename": with_os("o['rename']({canary!r}, {canary!r} + '.gone')"),
    "make a folder": with_os("o['mkdir']({canary!r} + '.folder')"),
    "read": with_os("o['open']({canary!r}, 0)"),
    "write": with_os("o['open']({canary!r}, 577)"),
    "list": with_os("o['listdir']('/')"),
    "fork": with_os("o['fork']()"),
    "kill the worker": with_os("o['kill'](o['getppid'](), 9)"),
    "execute": with_os("o['execv']('/bin/sh', ['sh', '-c', 'rm ' + {canary!r}])"),
    "lie about the worker": with_os("o['write'](1, b'{\"id\": 1, \"value\": 1}')"),
    "exit": with_os("o['_exit'](0)"),
    "answer for itself": with_os("o['write'](0, b'{\"value\": \"forged\"}') and o['_exit'](0)"),
    "abort": with_os("o['abort']()"),
}  # fmt: skip
"""Programs that the language has no place for."""

STOPPED = {
    "list that grows while it is read": body("l = [1]", "for x in l:", "    l.append(x)"),
    "text that doubles": body("x = 'ab'", "for i in range(60):", "    x = x + x", "return x"),
    "text that doubles by replacing": body(
        "x = 'a'", "for i in range(60):", "    x = x.replace('a', 'aa')", "return x"
    ),
    "list of all numbers": body(
        "return len(list(range(1000000)) + [list(range(999999)) for i in range(99)])"
    ),
    "loops in loops": body(
        "for a in range(1000000):", "    for b in range(1000000):", "        pass", "return 1"
    ),
    "sum of a million squared": body(
        "return sum(1 for a in range(1000000) for b in range(1000000))"
    ),
    "lambda that calls itself": body("f = lambda n: f(n + 1)", "return f(0)"),
    "list in itself": body("x = []", "x.append(x)", "return x"),
    "nested without end": body("x = []", "for i in range(9999):", "    x = [x]", "return x"),
    "text longer than an answer": body("return ['abcdefghij' for i in range(9999)]"),
    "generator": body("return (x for x in [1])"),
    "function as the answer": body("return lambda: 1"),
    "the graph as the answer": body("return sg"),
    "method as the answer": body("return {'a': sg}"),
    "keys that are not texts": body("return {1: 2}"),
    "a list's missing item": body("return [][0]"),
    "name before it is there": body("x = y", "y = 1", "return x"),
    "address of a function": body("return str(lambda: 1)[-10:]"),
    "address of an object in a field": body("return f'{iter([])}'[-10:]"),
    "calling a text": body("return 'a'()"),
}
"""Programs that the language allows and the process stops."""

HOSTILE = REFUSED | STOPPED
