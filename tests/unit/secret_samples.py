"""Secrets of every shape and harmless text like them, made when the tests run.

No literal secret stands here, so that scanners of this repository find none.
"""

from __future__ import annotations

import base64
import json
import random
import string
import uuid
from collections.abc import Callable, Iterator, Mapping

_UPPER = string.ascii_uppercase
_LOWER = string.ascii_lowercase
_DIGITS = string.digits
_HEX = "0123456789abcdef"
_ALNUM = _UPPER + _LOWER + _DIGITS
_WEB64 = _ALNUM + "-_"
_BASE64 = _ALNUM + "+/"


def _some(chance: random.Random, alphabet: str, length: int) -> str:
    # A letter and a digit first and last, as a border of words stands there.
    made = [chance.choice(alphabet) for _ in range(length)]
    made[0] = chance.choice([each for each in alphabet if each.isalnum()])
    made[-1] = chance.choice([each for each in alphabet if each.isalnum()])
    return "".join(made)


def _body(
    alphabet: str, length: int, *prefix: str, end: str = ""
) -> Callable[[random.Random], str]:
    return lambda chance: "".join(prefix) + _some(chance, alphabet, length) + end


def luhn(digits: str) -> str:
    """The digits with the check digit after them."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        number = int(digit) * (2 if place % 2 == 0 else 1)
        total += number - 9 if number > 9 else number
    return digits + str(-total % 10)


def _card(chance: random.Random) -> str:
    start, length = chance.choice(
        [("4", 16), ("51", 16), ("37", 15), ("6011", 16), ("2221", 16), ("3530", 16)]
    )
    number = luhn(start + "".join(chance.choice(_DIGITS) for _ in range(length - 1 - len(start))))
    gap = chance.choice(["", " ", "-"])
    groups = (4, 6, 5) if length == 15 else (4, 4, 4, 4)
    parts, at = [], 0
    for size in groups:
        parts.append(number[at : at + size])
        at += size
    return gap.join(parts)


def _web_token(chance: random.Random) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    claims = {"sub": str(chance.getrandbits(64)), "iat": chance.randrange(10**9)}
    head = {"alg": chance.choice(["HS256", "RS256"]), "typ": "JWT"}
    return ".".join([part(head), part(claims), _some(chance, _WEB64, 43)])


def _private_key(chance: random.Random) -> str:
    kind = chance.choice(["RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", ""]) + "PRIVATE" + " KEY"
    lines = "\n".join(_some(chance, _BASE64, 64) for _ in range(chance.randrange(2, 20)))
    return f"-----BEGIN {kind}-----\n{lines}\n{_some(chance, _BASE64, 21)}=\n-----END {kind}-----"


def _discord(chance: random.Random) -> str:
    start = chance.choice("MNO") + _some(chance, _ALNUM, 23)
    return f"{start}.{_some(chance, _WEB64, 6)}.{_some(chance, _WEB64, 38)}"


def _password(chance: random.Random) -> str:
    made = _some(chance, _LOWER, 4) + _some(chance, _DIGITS, 2) + _some(chance, _UPPER + "!#$", 3)
    return made if len(set(made)) > 3 else "x9" + made


SECRETS: Mapping[str, Callable[[random.Random], str]] = {
    "AWS access key": _body(_UPPER + "234567", 16, "AK", "IA"),
    "temporary AWS access key": _body(_UPPER + "234567", 16, "AS", "IA"),
    "Google API key": _body(_WEB64, 35, "AI", "za"),
    "Google OAuth secret": _body(_WEB64, 28, "GOC", "SPX-"),
    "Google access token": _body(_WEB64, 120, "ya", "29."),
    "Azure client secret": lambda c: _some(c, _ALNUM, 3) + "8Q" + "~" + _some(c, _WEB64, 34),
    "DigitalOcean": _body(_HEX, 64, "dop", "_v1_"),
    "Heroku": _body(_WEB64, 60, "HR", "KU-"),
    "Fly.io": _body(_BASE64, 200, "fm", "2_"),
    "Netlify": _body(_ALNUM, 36, "nf", "p_"),
    "Render": _body(_ALNUM, 32, "rn", "d_"),
    "Tailscale": lambda c: "ts" + "key-auth-" + _some(c, _ALNUM, 17) + "-" + _some(c, _ALNUM, 32),
    "Supabase": _body(_HEX, 40, "sb", "p_"),
    "PlanetScale": _body(_WEB64, 43, "pscale", "_tkn_"),
    "Databricks": _body(_HEX, 32, "da", "pi"),
    "GitHub": _body(_ALNUM, 36, "gh", "p_"),
    "GitHub OAuth": _body(_ALNUM, 36, "gh", "o_"),
    "GitHub fine-grained": lambda c: (
        "github" + "_pat_" + _some(c, _ALNUM, 22) + "_" + _some(c, _ALNUM, 59)
    ),
    "GitLab": _body(_WEB64, 20, "gl", "pat-"),
    "Bitbucket": _body(_ALNUM, 32, "AT", "BB"),
    "Atlassian": _body(_WEB64, 180, "ATA", "TT3"),
    "npm": _body(_ALNUM, 36, "np", "m_"),
    "PyPI": _body(_WEB64, 160, "pypi-", "AgEIcHlwaS5vcmc"),
    "RubyGems": _body(_HEX, 48, "ruby", "gems_"),
    "Docker": _body(_WEB64, 27, "dckr", "_pat_"),
    "Artifactory": _body(_ALNUM, 69, "AK", "Cp"),
    "Buildkite": _body(_HEX, 40, "bk", "ua_"),
    "Terraform": lambda c: _some(c, _ALNUM, 14) + ".atlas" + "v1." + _some(c, _WEB64, 67),
    "Pulumi": _body(_HEX, 40, "pu", "l-"),
    "Vault": _body(_WEB64, 90, "hv", "s."),
    "Doppler": _body(_ALNUM, 43, "dp", ".pt."),
    "Postman": lambda c: "PM" + "AK-" + _some(c, _HEX, 24) + "-" + _some(c, _HEX, 34),
    "Sentry": _body(_BASE64, 120, "sn", "trys_"),
    "Grafana": lambda c: "gl" + "sa_" + _some(c, _ALNUM, 32) + "_" + _some(c, _HEX, 8),
    "New Relic": _body(_UPPER + _DIGITS, 27, "NR", "AK-"),
    "PostHog": _body(_ALNUM, 43, "ph", "x_"),
    "Anthropic": lambda c: "sk-" + "ant-api03-" + _some(c, _WEB64, 93) + "AA",
    "OpenRouter": _body(_HEX, 64, "sk-", "or-v1-"),
    "OpenAI project": _body(_WEB64, 150, "sk-", "proj-"),
    "OpenAI": lambda c: "sk-" + _some(c, _ALNUM, 20) + "T3Blbk" + "FJ" + _some(c, _ALNUM, 20),
    "Hugging Face": _body(_ALNUM, 34, "h", "f_"),
    "Groq": _body(_ALNUM, 52, "gs", "k_"),
    "xAI": _body(_ALNUM, 80, "xa", "i-"),
    "Perplexity": _body(_ALNUM, 48, "pp", "lx-"),
    "Replicate": _body(_ALNUM, 37, "r", "8_"),
    "Slack bot": lambda c: (
        "xo" + f"xb-{_some(c, _DIGITS, 12)}-{_some(c, _DIGITS, 12)}-{_some(c, _ALNUM, 24)}"
    ),
    "Slack app": lambda c: (
        "xa" + f"pp-1-A{_some(c, _ALNUM, 10)}-{_some(c, _DIGITS, 12)}-{_some(c, _HEX, 64)}"
    ),
    "Slack webhook": lambda c: (
        "T" + _some(c, _ALNUM, 8) + "/B" + _some(c, _ALNUM, 8) + "/" + _some(c, _ALNUM, 24)
    ),
    "Discord bot": _discord,
    "Telegram": lambda c: _some(c, "123456789", 10) + ":A" + "A" + _some(c, _WEB64, 33),
    "Twilio": _body(_HEX, 32, "S", "K"),
    "SendGrid": lambda c: "S" + "G." + _some(c, _WEB64, 22) + "." + _some(c, _WEB64, 43),
    "Mailgun": _body(_HEX, 32, "ke", "y-"),
    "Mailchimp": lambda c: _some(c, _HEX, 32) + "-u" + f"s{c.randrange(1, 30)}",
    "Brevo": lambda c: "xkey" + "sib-" + _some(c, _HEX, 64) + "-" + _some(c, _ALNUM, 16),
    "Stripe": _body(_ALNUM, 24, "sk_", "live_"),
    "Stripe restricted": _body(_ALNUM, 99, "rk_", "live_"),
    "Stripe webhook": _body(_ALNUM, 32, "whs", "ec_"),
    "Square": _body(_WEB64, 22, "sq0", "atp-"),
    "Shopify": _body(_HEX, 32, "shp", "at_"),
    "EasyPost": _body(_ALNUM, 54, "EZ", "AK"),
    "Linear": _body(_ALNUM, 40, "lin", "_api_"),
    "Notion": _body(_ALNUM, 46, "nt", "n_"),
    "Airtable": lambda c: "pa" + "t" + _some(c, _ALNUM, 14) + "." + _some(c, _HEX, 64),
    "Figma": _body(_WEB64, 40, "fi", "gd_"),
    "Dropbox": _body(_WEB64, 135, "s", "l."),
    "Typeform": _body(_ALNUM, 44, "tf", "p_"),
    "Contentful": _body(_WEB64, 43, "CFP", "AT-"),
    "Adafruit": _body(_ALNUM, 28, "ai", "o_"),
    "age": _body(_UPPER + _DIGITS, 58, "AGE-", "SECRET-KEY-1"),
    "web token": _web_token,
    "private key": _private_key,
    "card": _card,
    # What follows is known by what stands before it: see CARRIERS.
    "AWS secret key": _body(_BASE64, 40),
    "Azure account key": _body(_BASE64, 86, end="=="),
    "Azure signature": _body(_ALNUM + "%", 46),
    "bearer": lambda c: "a1" + _some(c, _WEB64, 40),
    "login": lambda c: base64.b64encode(f"bo:{_password(c)}".encode()).decode(),
    "address": lambda c: _some(c, _ALNUM + "!$", 12),
    "connection": _password,
    "password": _password,
    "key": lambda c: "k7" + _some(c, _ALNUM, 30),
}
"""A maker for each shape."""

CARRIERS: Mapping[str, tuple[str, ...]] = {
    "AWS secret key": (
        "aws_secret_access_key = {}", 'AWS_SECRET_ACCESS_KEY="{}"', "SecretAccessKey: {}",
    ),
    "Azure account key": ("AccountName=a;AccountKey={};EndpointSuffix=core.windows.net",),
    "Azure signature": ("https://a.blob.core.windows.net/c/b?sv=2024-11-04&sig={}&se=2027",),
    "Slack webhook": ("post to https://hooks.slack.com/services/{} please",),
    "bearer": ("Authorization: Bearer {}", "curl -H 'authorization: bearer {}' https://example.com"),
    "login": ("Authorization: Basic {}",),
    "address": (
        "postgres://bob:{}@db.example.com:5432/shop", "DATABASE_URL=mysql://root:{}@10.0.0.1/x",
    ),
    "connection": (
        "host=db user=bob password={} dbname=x", "Server=db;User Id=sa;Password={};Encrypt=yes",
    ),
    "password": (
        "my password is {}", "Password: {}", "the password for the wifi is {}", "mật khẩu: {}",
        "mon mot de passe est {}", "mi contraseña es {}", "Das Passwort ist {}", "пароль: {}",
        "密码是{}", "パスワードは{}", "كلمة المرور: {}", "รหัสผ่านคือ {}",
        'passwd = "{}"', "DB_PASSWORD={}", '{{"password": "{}"}}',
    ),
    "key": (
        "api_key = '{}'", '"client_secret": "{}"', "X-Api-Key: {}", "access_token={}&x=1",
        "ACCESS_KEY: {}",
    ),
}  # fmt: skip
_ANYWHERE = (
    "{}", "here it is: {} – thanks", 'key="{}"', "export TOKEN={}\n", "({})", "`{}`", "token:{}",
    "đây là khoá của tôi {} nhé", "これを使って: {}", "{}\nand then?", '{{"k": "{}"}}',
)  # fmt: skip


def secrets_in_text(each: int) -> Iterator[tuple[str, str, str]]:
    """Texts with a secret: the shape, the secret, and the text."""
    chance = random.Random(20261128)
    for shape, make in SECRETS.items():
        for number in range(each):
            secret = make(chance)
            carriers = CARRIERS.get(shape, _ANYWHERE)
            yield shape, secret, carriers[number % len(carriers)].format(secret)


def _base64(chance: random.Random, length: int) -> str:
    return base64.b64encode(chance.randbytes(length)).decode()


def _iban(chance: random.Random) -> str:
    country, length = chance.choice([("DE", 20), ("GB", 20), ("FR", 25), ("NL", 16), ("PT", 23)])
    number = country + "".join(chance.choice(_DIGITS) for _ in range(length))
    return " ".join(number[at : at + 4] for at in range(0, len(number), 4))


_HARMLESS: tuple[Callable[[random.Random], str], ...] = (
    lambda c: f"the job is {uuid.UUID(int=c.getrandbits(128))}",
    lambda c: f"fixed in commit {_some(c, _HEX, 40)}, see {_some(c, _HEX, 7)}",
    lambda c: f"call me at +49 {c.randrange(100, 999)} {c.randrange(10**6, 10**7)} after six",
    lambda c: f"(0{c.randrange(10, 99)}) {c.randrange(1000, 9999)}-{c.randrange(1000, 9999)}",
    lambda c: f"order no. {c.randrange(10**7, 10**12)} arrives on 2026-{c.randrange(1, 12):02}-14",
    lambda c: f"ORD-2026-{c.randrange(10**6):06}, invoice {c.randrange(10**5)}/{c.randrange(99)}",
    lambda c: (
        f"2026-09-{c.randrange(1, 30):02}T{c.randrange(10, 24)}:14:07.{c.randrange(10**6):06}+01:00"
    ),
    lambda c: f"at {c.randrange(1_600_000_000_000, 1_900_000_000_000)} ms since 1970",
    lambda c: f"data:image/png;base64,{_base64(c, c.randrange(30, 3000))}",
    lambda c: f"my IBAN is {_iban(c)}",
    lambda c: f"it costs {c.randrange(1, 9999)}.{c.randrange(100):02} € or ${c.randrange(10**6):,}",
    lambda c: (
        f"https://example.com/p/{_some(c, _ALNUM, 11)}?v={_some(c, _ALNUM, 11)}"
        f"&t={c.randrange(999)}s"
    ),
    lambda c: f"https://github.com/o/r/blob/{_some(c, _HEX, 40)}/src/main.rs#L{c.randrange(999)}",
    lambda c: f"ISBN 978-3-16-{c.randrange(10**6):06}-0, EAN {c.randrange(10**12, 10**13)}",
    lambda c: (
        f"MAC {':'.join(_some(c, _HEX, 2) for _ in range(6))}, IP 192.168.{c.randrange(255)}.7"
    ),
    lambda c: (
        f"Flight LH{c.randrange(100, 999)}, seat {c.randrange(30)}A, booking {_some(c, _UPPER, 6)}"
    ),
    lambda c: f"def f{c.randrange(99)}(password: str, api_key: str | None = None) -> bool: ...",
    lambda c: f"password = os.environ['DB_PASSWORD{c.randrange(9)}']",
    lambda c: f"api_key=settings.OPENAI_API_KEY{c.randrange(9)}, token=get_token{c.randrange(9)}()",
    lambda c: f'<input type="password" name="password" id="pw{c.randrange(99)}">',
    lambda c: f"PASSWORD=${{DB_PASSWORD{c.randrange(9)}}} API_KEY=<your-api-key-{c.randrange(9)}>",
    lambda c: f"I forgot my password: it had {c.randrange(8, 30)} characters",
    lambda c: f"/login?password=required&remember-me={c.randrange(9)}",
    lambda c: f"Password: &lt;your password&gt; ({c.randrange(8, 30)} characters)",
    lambda c: f"Your password is at least {c.randrange(8, 16)} characters long.",
    lambda c: f"the password is base64-encoded, since version {c.randrange(9)}.{c.randrange(9)}",
    lambda c: f"Das Passwort ist seit dem {c.randrange(1, 28)}.09.2026 abgelaufen",
    lambda c: f"mật khẩu là bắt buộc, đổi mỗi {c.randrange(30, 90)} ngày",
    lambda c: f"密码是必需的，第{c.randrange(99)}页 パスワードは必要です",
    lambda c: f"Bearer of bad news {c.randrange(99)}; bearer bonds of {c.randrange(1900, 2026)}",
    lambda c: f"ana@example.com wrote to bob+{c.randrange(99)}@mail.example.org",
    lambda c: f"http://localhost:{c.randrange(1024, 65535)}/a@b and ssh://git@example.com:22/x.git",
    lambda c: (
        f"pattern-{c.randrange(99)}, path/to/file{c.randrange(99)}.py, sk-SK, key-value, "
        f"task_{c.randrange(99)}"
    ),
    lambda c: f"a PEM file begins with -----BEGIN PRIVATE KEY----- (see page {c.randrange(99)})",
    lambda c: f"version v1.{c.randrange(99)}.0-rc.{c.randrange(9)}+build.{_some(c, _HEX, 8)}",
    lambda c: f"model gpt-4o-mini-2024-07-{c.randrange(10, 29)}, text-embedding-3-small",
    lambda c: f"node_modules/@types/react@18.2.{c.randrange(99)} integrity sha512-{_base64(c, 64)}",
    lambda c: (
        f"SKU SK-{c.randrange(10**6)}, patent US{c.randrange(10**7)}B2, Pat. {c.randrange(999)}"
    ),
    lambda c: f"Ich wohne seit {c.randrange(1990, 2026)} in der Straße {c.randrange(200)} 🌷",
    lambda c: (
        f"私は{c.randrange(1, 12)}月に大阪へ行きます。"
        f"予約番号は{_some(c, _UPPER + _DIGITS, 8)}です。"
    ),
    lambda c: f"الموعد يوم {c.randrange(1, 30)} والرقم {c.randrange(10**8)}",
    lambda c: f"the secret is out: {c.randrange(99)} people know; a token of love, the key to it",
    lambda c: (
        f"1 2 3 4 5 6 7 8 {c.randrange(99)} 10 11 12 13, matrix 1111 2222 3333 444{c.randrange(9)}"
    ),
    lambda c: (
        f"tweet {c.randrange(10**18, 2 * 10**18)} and channel {c.randrange(10**17, 3 * 10**17)}"
    ),
)


def harmless(count: int) -> Iterator[str]:
    """Texts that look like secrets and are none."""
    chance = random.Random(28112026)
    for number in range(count):
        yield _HARMLESS[number % len(_HARMLESS)](chance)
