"""The shapes of secrets: one table of keys and tokens, and how a person writes a password.

A shape is found by its anchors, literals that every text with such a secret contains, so that text
without any costs one substring search for each. Where an anchor stands, a pattern is matched at
that place; no pattern is searched for. Patterns begin with a border, or have bounded repetitions,
so that each character is read a bounded number of times.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_BORDER = r"(?<![A-Za-z0-9_-])"
_END = r"(?![A-Za-z0-9_])"
SHORTEST_UNBROKEN = 10
"""Characters of the shortest secret that is known by itself, with what it is known by."""


@dataclass(frozen=True, slots=True)
class SecretShape:
    """One kind of secret.

    Attributes:
        name: What it is, in the words of its marker.
        anchors: Literals, one of which every such secret contains; in lower case if `named`.
        pattern: Matches from the anchor on. Its group `secret` is what is replaced, else all of it.
        before: What of the secret stands before the anchor, with `$` at its end; None: nothing.
        longest: Characters of that, at most.
        named: Whether it is known by a name before it, which may be in any case, and have blanks
            around it. Otherwise, its text from the anchor on has no blanks.
        holds: A further condition on the replaced text.
    """

    name: str
    anchors: tuple[str, ...]
    pattern: re.Pattern[str]
    before: re.Pattern[str] | None = None
    longest: int = 0
    named: bool = False
    holds: Callable[[str], bool] | None = None

    def at(self, text: str, compared: str, anchor_at: int) -> tuple[int, int] | None:
        """The place of the secret whose anchor stands at a place; None if there is none.

        `compared` is the text in which it is looked for: the same, or in lower case.
        """
        found = self.pattern.match(compared, anchor_at)
        if found is None:
            return None
        start, end = found.span("secret" if "secret" in self.pattern.groupindex else 0)
        if self.before is not None:
            first = max(0, anchor_at - self.longest - 1)
            before = self.before.search(compared[first:anchor_at])
            if before is None:
                return None
            start = first + before.start()
        while compared[end - 1] in ".:":
            end -= 1
        return (start, end) if self.holds is None or self.holds(text[start:end]) else None


def _token(name: str, body: str, *prefixes: str) -> SecretShape:
    """A token with a prefix that nothing else has."""
    either = "|".join(map(re.escape, prefixes))
    return SecretShape(name, prefixes, re.compile(f"{_BORDER}(?:{either}){body}{_END}"))


def _around(name: str, before: str, longest: int, anchor: str, after: str) -> SecretShape:
    """A token that is known by something in its middle."""
    return SecretShape(
        name,
        (anchor,),
        re.compile(f"{re.escape(anchor)}{after}{_END}"),
        before=re.compile(f"{_BORDER}{before}$"),
        longest=longest,
    )


def has_letter_and_digit(text: str) -> bool:
    """Whether a text has a letter and a digit, as secrets do and words do not."""
    return any(map(str.isalpha, text)) and any(map(str.isdigit, text))


_NO_PASSWORD = ("$", "%", "/", "./", "~", "http", "--", "@", "&")
_WORDS_JOINED = re.compile(
    r"[a-z]*\d{0,4}(?:[-_/.][a-z]+)+\d{0,2}[.!?]?|\d+[-_/.]?[a-z]+", re.ASCII
)


def is_password(text: str) -> bool:
    """Whether what follows a word for password is one: no word, date, number or placeholder."""
    mixed = has_letter_and_digit(text) or (
        any(map(str.isalpha, text)) and any(sign in "!@#$%^&*+?~" for sign in text[:-1])
    )
    return mixed and _WORDS_JOINED.fullmatch(text) is None and not text.startswith(_NO_PASSWORD)


def _is_key(text: str) -> bool:
    return has_letter_and_digit(text) and _WORDS_JOINED.fullmatch(text) is None


def _holds_base64(text: str) -> bool:
    return re.search(r"[A-Za-z0-9+/=]{30}", text) is not None


_BASE64 = r"[A-Za-z0-9+/]"
_WEB64 = r"[A-Za-z0-9_-]"
_ALNUM = r"[A-Za-z0-9]"
_HEX = r"[0-9a-fA-F]"
_NAMED = r"""["'`]?[ \t]{0,3}(?:=>|:=|=|:)[ \t]{0,3}["'`]?"""
_IS = r"=>|:=|[=:：]|\b(?:is|ist|est|es|là|é|هي|adalah)\b:?|是|は|คือ"
_FOR = r" (?:for|of|to|für|pour|de|del|da|do|voor|cho) [^\n:=]{1,40}?"
_SAID = rf"""["'`*]{{0,2}}(?:{_FOR})?[ \t]{{0,3}}(?:{_IS})[ \t]{{0,3}}["'`*]{{0,2}}"""
_PASSWORD_WORDS = (
    *("password", "passwd", "passphrase", "pwd", "passwort", "kennwort", "mot de passe"),
    *("contraseña", "contrasena", "senha", "wachtwoord", "hasło", "mật khẩu", "пароль"),
    *("密码", "密碼", "パスワード", "비밀번호", "كلمة المرور", "كلمة السر", "รหัสผ่าน", "kata sandi"),
    *("şifre", "סיסמה", "पासवर्ड"),
)
_KEY_WORDS = (
    *("api_key", "apikey", "api-key", "api key", "access_token", "access-token", "auth_token"),
    *("accesstoken", "authtoken", "refresh_token", "refreshtoken", "client_secret", "clientsecret"),
    *("secret_key", "secretkey", "secret-key", "access_key", "accesskey", "private_key"),
    *("signing_secret", "webhook_secret", "encryption_key", "x-api-key"),
)
SECRET_NAMES = frozenset(
    word.replace("-", "").replace("_", "").replace(" ", "")
    for word in (*_PASSWORD_WORDS, *_KEY_WORDS, "secret")
)
"""Names of fields of free JSON whose texts are secrets, without hyphens, underscores and blanks."""

SHAPES: tuple[SecretShape, ...] = (
    # To its last line, or as far as its lines are there.
    SecretShape(
        "private key",
        ("-----BEGIN",),
        re.compile(
            r"-----BEGIN (?P<kind>(?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?)-----"
            r"(?:(?:[^-]|-(?!----)){0,20000}+-----END (?P=kind)-----"
            r"|(?:\s|\\[nr])*+(?:[A-Za-z0-9+/=]{30,}+(?:\s|\\[nr])*+)++)"
        ),
        holds=_holds_base64,
    ),
    _token("age secret key", r"[0-9A-Z]{58}", "AGE-SECRET-KEY-1"),
    # Clouds.
    _token("AWS access key", r"[A-Z2-7]{16}", "AKIA", "ASIA", "ABIA", "ACCA"),
    SecretShape(
        "AWS secret key",
        ("aws_secret_access_key", "aws_secret_key", "secretaccesskey", "aws secret access key"),
        re.compile(rf"[a-z_ ]{{14,21}}{_NAMED}(?P<secret>{_BASE64}{{40}})(?![A-Za-z0-9+/])"),
        named=True,
    ),
    _token("Google API key", rf"{_WEB64}{{35}}", "AIza"),
    _token("Google OAuth secret", rf"{_WEB64}{{24,40}}", "GOCSPX-"),
    _token("Google access token", rf"{_WEB64}{{20,2048}}", "ya29."),
    SecretShape(
        "Azure account key",
        ("AccountKey=", "SharedAccessKey="),
        re.compile(rf"(?:AccountKey|SharedAccessKey)=(?P<secret>{_BASE64}{{40,90}}={{0,2}})"),
    ),
    _around("Azure client secret", r"[A-Za-z0-9_.~-]{3}\d", 4, "Q~", r"[A-Za-z0-9_.~-]{31,34}"),
    SecretShape(
        "Azure shared access signature",
        ("sig=",),
        re.compile(r"(?<=[?&;])sig=(?P<secret>[A-Za-z0-9%+/]{40,90}(?:=|%3D)?)"),
    ),
    _token("DigitalOcean token", r"[a-f0-9]{64}", "dop_v1_", "doo_v1_", "dor_v1_"),
    _token("Heroku key", rf"{_WEB64}{{30,80}}", "HRKU-"),
    _token("Fly.io token", r"[A-Za-z0-9+/=_,-]{40,4096}", "fm1_", "fm2_", "fo1_"),
    _token("Netlify token", rf"{_ALNUM}{{36,40}}", "nfp_"),
    _token("Render key", rf"{_ALNUM}{{28,40}}", "rnd_"),
    _token("Cloudflare origin key", rf"{_HEX}{{24}}-{_HEX}{{140,160}}", "v1.0-"),
    _token(
        "Tailscale key",
        rf"(?:auth|api|client|scim|webhook)-{_ALNUM}{{8,32}}-{_ALNUM}{{20,64}}",
        "tskey-",
    ),
    _token("Supabase key", rf"{_ALNUM}{{40}}", "sbp_"),
    _token("Supabase secret key", rf"{_WEB64}{{24,64}}", "sb_secret_"),
    _token(
        "PlanetScale secret", rf"{_WEB64}{{32,64}}", "pscale_tkn_", "pscale_pw_", "pscale_oauth_"
    ),
    _token("Databricks token", r"[a-f0-9]{32}(?:-\d)?", "dapi"),
    # Code and builds.
    _token("GitHub token", rf"{_ALNUM}{{36,255}}", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    _token("GitHub token", r"[A-Za-z0-9_]{60,255}", "github_pat_"),
    _token(
        "GitLab token",
        rf"{_WEB64}{{20,64}}(?:\.[0-9a-z.]{{2,40}})?",
        *("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glsoat-", "glagent-"),
    ),
    _token("Bitbucket app password", rf"{_ALNUM}{{24,40}}", "ATBB"),
    _token("Atlassian token", r"[A-Za-z0-9_=-]{100,400}", "ATATT3", "ATCTT3"),
    _token("npm token", rf"{_ALNUM}{{36}}", "npm_"),
    _token("PyPI token", rf"{_WEB64}{{50,1024}}", "pypi-AgEIcHlwaS5vcmc", "pypi-AgENdGVzdC5weXBp"),
    _token("RubyGems key", r"[a-f0-9]{48}", "rubygems_"),
    _token("Docker token", rf"{_WEB64}{{27,40}}", "dckr_pat_", "dckr_oat_"),
    _token("Artifactory key", rf"{_ALNUM}{{50,80}}", "AKCp"),
    _token("CircleCI token", rf"{_ALNUM}{{20,40}}_[a-f0-9]{{40}}", "CCIPAT_", "CCIPRJ_"),
    _token("Buildkite token", r"[a-f0-9]{40}", "bkua_"),
    _around("Terraform token", rf"{_ALNUM}{{14}}", 14, ".atlasv1.", rf"{_WEB64}{{60,70}}"),
    _token("Pulumi token", r"[a-f0-9]{40}", "pul-"),
    _token("Vault token", rf"{_WEB64}{{24,200}}", "hvs.", "hvb.", "hvr."),
    _token("Doppler token", rf"{_ALNUM}{{40,44}}", "dp.pt.", "dp.ct.", "dp.sa."),
    _token("1Password token", rf"{_WEB64}{{200,4096}}", "ops_eyJ"),
    _token("Postman key", r"[a-f0-9]{24}-[a-f0-9]{34}", "PMAK-"),
    _token("Sentry token", r"[A-Za-z0-9+/=_-]{40,400}", "sntrys_", "sntryu_"),
    _token("Grafana token", r"[A-Za-z0-9+/=_]{32,400}", "glsa_", "glc_"),
    _token("New Relic key", r"[A-Z0-9]{27}", "NRAK-"),
    _token("PostHog key", rf"{_ALNUM}{{40,48}}", "phx_"),
    # Language models.
    _token("Anthropic key", rf"{_WEB64}{{60,200}}", "sk-ant-"),
    _token("OpenRouter key", r"[a-f0-9]{64}", "sk-or-v1-"),
    _token("OpenAI key", rf"{_WEB64}{{40,220}}", "sk-proj-", "sk-svcacct-", "sk-admin-"),
    _token("OpenAI key", rf"{_ALNUM}{{20}}T3BlbkFJ{_ALNUM}{{20}}", "sk-"),
    _token("key of a language model", rf"(?=[a-z]{{0,31}}[A-Z0-9]){_ALNUM}{{32,64}}", "sk-"),
    _token("Hugging Face token", rf"{_ALNUM}{{30,40}}", "hf_"),
    _token("Groq key", rf"{_ALNUM}{{48,56}}", "gsk_"),
    _token("xAI key", rf"{_ALNUM}{{70,90}}", "xai-"),
    _token("Perplexity key", rf"{_ALNUM}{{40,56}}", "pplx-"),
    _token("Replicate token", rf"{_ALNUM}{{37,40}}", "r8_"),
    # Messages and mail.
    _token(
        "Slack token", rf"{_WEB64}{{20,250}}", "xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxe-"
    ),
    _token("Slack token", rf"\d-{_WEB64}{{20,250}}", "xapp-"),
    SecretShape(
        "Slack webhook",
        ("hooks.slack.com/",),
        re.compile(
            rf"hooks\.slack\.com/(?:services|workflows)/(?P<secret>{_WEB64}{{8,40}}(?:/{_WEB64}{{8,60}}){{1,3}})"
        ),
    ),
    SecretShape(
        "Discord webhook",
        ("/api/webhooks/",),
        re.compile(rf"/api/webhooks/\d{{17,20}}/(?P<secret>{_WEB64}{{60,80}})"),
    ),
    SecretShape(
        "Discord bot token",
        (".",),
        re.compile(rf"\.{_WEB64}{{6}}\.{_WEB64}{{27,40}}(?![A-Za-z0-9_.-])"),
        before=re.compile(rf"(?<![A-Za-z0-9_.-])[MNO]{_WEB64}{{23,27}}$"),
        longest=28,
        holds=has_letter_and_digit,
    ),
    _around("Telegram bot token", r"\d{8,10}", 10, ":AA", rf"{_WEB64}{{33}}"),
    _token("Twilio key", r"[0-9a-f]{32}", "SK"),
    _token("SendGrid key", rf"{_WEB64}{{20,24}}\.{_WEB64}{{39,50}}", "SG."),
    _token("Mailgun key", r"[0-9a-f]{32}", "key-"),
    _around("Mailchimp key", r"[0-9a-f]{32}", 32, "-us", r"\d{1,2}"),
    _token("Brevo key", rf"[a-f0-9]{{64}}-{_ALNUM}{{16}}", "xkeysib-", "xsmtpsib-"),
    # Money and shops.
    _token("Stripe key", rf"{_ALNUM}{{16,250}}", "sk_live_", "sk_test_", "rk_live_", "rk_test_"),
    _token("Stripe webhook secret", r"[A-Za-z0-9+/=]{24,64}", "whsec_"),
    _token("Square token", rf"{_WEB64}{{22,60}}", "sq0atp-", "sq0csp-", "EAAAE"),
    _token("Shopify token", rf"{_HEX}{{32}}", "shpat_", "shpca_", "shppa_", "shpss_"),
    _token("EasyPost key", rf"{_ALNUM}{{54}}", "EZAK", "EZTK"),
    # Work.
    _token("Linear key", rf"{_ALNUM}{{32,48}}", "lin_api_", "lin_oauth_"),
    _token("Notion token", rf"{_ALNUM}{{40,50}}", "ntn_", "secret_"),
    _token("Airtable token", rf"{_ALNUM}{{14}}\.[0-9a-f]{{64}}", "pat"),
    _token("Figma token", rf"{_WEB64}{{36,48}}", "figd_"),
    _token("Dropbox token", rf"{_WEB64}{{100,2048}}", "sl."),
    _token("Typeform token", r"[A-Za-z0-9_.-]{40,64}", "tfp_"),
    _token("Contentful token", rf"{_WEB64}{{43}}", "CFPAT-"),
    _token("Adafruit key", rf"{_ALNUM}{{28}}", "aio_"),
    # What any program may hand out.
    SecretShape(
        "JSON Web Token",
        ("eyJ",),
        re.compile(rf"{_BORDER}eyJ{_WEB64}{{8,8192}}\.eyJ{_WEB64}{{8,16384}}\.{_WEB64}{{0,4096}}"),
    ),
    SecretShape(
        "bearer token",
        ("bearer ",),
        re.compile(r"(?<![a-z0-9])bearer {1,3}(?P<secret>[a-z0-9._~+/-]{16,8192}={0,2})"),
        named=True,
        holds=has_letter_and_digit,
    ),
    SecretShape(
        "login",
        ("authorization: basic ", "authorization:basic "),
        re.compile(r"authorization: ?basic {1,3}(?P<secret>[a-z0-9+/]{8,4096}={0,2})"),
        named=True,
    ),
    SecretShape(
        "password in an address",
        ("://",),
        re.compile(r"://[^\s/:@?#]{0,128}:(?P<secret>[^\s/@:?#]{1,256})@[^\s@]"),
    ),
    SecretShape(
        "password",
        _PASSWORD_WORDS,
        re.compile(
            rf"(?<![a-z])(?:{'|'.join(_PASSWORD_WORDS)}){_SAID}"
            # The name of another value ends it: `?password=…&x=1`, `Password=…;User Id=sa`.
            r"""(?P<secret>(?:[^\s"'`<>(){}\[\],;&，。、]"""
            r"""|[;&](?=\w)(?!\w(?:[\w .%-]{0,30}=|[\w.%-]{0,30}[(\[{]))){6,256}+)"""
            r"""(?![(\[{])"""
        ),
        named=True,
        holds=is_password,
    ),
    SecretShape(
        "key",
        _KEY_WORDS,
        re.compile(
            rf"(?:{'|'.join(_KEY_WORDS)}){_SAID}(?P<secret>[a-z0-9_\-+/~]{{16,512}}+={{0,2}})(?![\w.(])"
        ),
        named=True,
        holds=_is_key,
    ),
)
"""Of two shapes that match at a place, the first names the secret."""
