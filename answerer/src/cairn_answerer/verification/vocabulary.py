"""The word lists by which a claim is compared with a step. `language` makes stems of them."""

from __future__ import annotations

from typing import Final

from cairn_answerer.words import word_set

LITTLE: Final = word_set(
    "a an the this that these those it its is are was were be been being am do does did done doing have has had "
    "having will would shall should can could may might must need needs needed to of in on at by for with from "
    "into onto under over than as where who whom whose what how why there here also too very just still yet any "
    "some such your yours we our us they their them i me my he she his her you up down out off again about between "
    "through during please use uses using used run make makes made sure ensure get gets got let lets see go goes "
    "going want like e g ie eg i.e e.g etc via per step steps so or and but one ones single both either way now next "
    "following command commands it's that's thing things order case if when while until once because "
    "since whereas which otherwise although then not no never none nothing neither nor without cannot instead "
    "require requires required simply only all each every even first before after most least more fewer less above "
    "below atmost atleast always unless mostly mean means meaning file files value server's therefore thus "
    "whether hence already currently become becomes does doing give gives given s t ll re ve"
)
"""Words that carry no meaning of their own. Those that change a meaning are looked at one by one elsewhere."""

NEGATORS: Final = word_set(
    "not no never none nothing neither nor without cannot insteadof dont cant wont avoid avoids avoided avoiding"
)

OPERATORS: Final = {
    "all": "all", "each": "all", "every": "all", "both": "both",
    "only": "only", "solely": "only", "even": "even", "most": "most", "mostly": "most", "least": "least",
    "more": "more", "fewer": "fewer", "less": "fewer", "above": ">", "below": "<", "atmost": "<=", "atleast": ">=",
    "always": "always", "unless": "unless", "exactly": "exactly",
}  # fmt: skip
"""Words that say how much of something is meant: a claim may have only those of the sentence it rests on."""

SCOPE_ENDS: Final = word_set("but because since whereas while otherwise although so then if when until once which")
"""Words at which a negation ends."""

JOINTS: Final = word_set("and but because since whereas while which so otherwise although then or as")
"""Words at which a sentence of a claim may be taken apart when its halves stand in two sentences of a step."""

PRONOUNS: Final = word_set("it its this that they them these those one")
CONDITIONS: Final = word_set("if when until unless once whether")

PHRASES: Final = (
    (r"\b(?:can ?not|can't|could not|must not|not) be (?:undone|reversed|reverted|taken back)\b|\birreversible\b",
     "not reversible"),
    (r"\bbe (?:undone|reversed|taken back)\b", "reversible"),
    (r"\bonly (?:if|when) (?:nothing else|all else) (?:helps|works|fails)\b|\b(?:only )?as a last resort\b",
     "only lastresort"),
    (r"\b(?:at most|up to|no more than|not more than|a maximum of)(?! (?:just|here|now))\b", "atmost"),
    (r"\b(?:at least|no less than|not less than|a minimum of)\b", "atleast"),
    (r"\b(?:less|fewer|lower|smaller) than\b|\bunder (?=\d)|\bbeneath\b", "below "),
    (r"\b(?:more|greater|higher|larger) than\b|\bover (?=\d)|\bexceed(?:s|ing)?\b", "above "),
    (r"\b(?:at once|immediately|right away|instantly|straight away)\b", "immediately"),
    (r"\b(?:instead of|rather than)\b", "insteadof"),
    (r"\bno longer\b", "not"),
    (r"\bafter (?=(?:an?|one|\d+) (?:second|minute|hour|day|week)s?\b)", "later "),
    (r"\b(?:an?|one) (?=(?:second|minute|hour|day|week)\b)", "1 "),
    (r"\b(?:go|goes|going|carry|carries) on\b|\bproceeds?\b", "continue"),
    (r"\bsuspends?\b", "pause"),
    (r"\broll(?:s|ed|ing)? (?:(?:it|them|this) )?back\b", "rollback"),
    (r"\bshut(?:s|ting)? down\b", "shutdown"),
    (r"\bso that\b", "so"),
    (r"\bas soon as\b", "when"),
    (r"\b(?:has|have|had|needs?) to\b", "must"),
    (r"\b(?:starting|beginning) with\b", "first"),
    (r"\bin use\b", "inuse"),
    (r"(?<=\bmust )run\b|(?<=\bshould )run\b|(?<=\bto )run\b(?=[.,;]|$)", "running"),
)  # fmt: skip
"""Expressions of several words, and how each is read."""

SAME: Final = (
    "raise increase enlarge", "lower decrease reduce", "begin start", "choose pick select", "show display",
    "change modify alter", "permit allow", "find locate identify determine", "confirm prove", "copy duplicate",
    "kill terminate", "happen occur", "big large huge", "stay remain fit", "cure repair fix", "quick fast",
    "check verify inspect", "owner owning", "consent agreement approval", "proof prove", "reach arrive",
    "restart reboot", "watch look", "help lastresort", "continue resume", "limit cap", "close disconnect",
    "scale throttle", "immediate immediately", "ram memory",
    "delete remove erase wipe drop rm", "agree consent", "report tell inform",
)  # fmt: skip
"""Words that may stand for one another. Short on purpose: a word that is not the step's is a word nobody checked."""

RISKY: Final = (
    ("delete remove erase wipe purge rm unlink unset", ""),
    ("drop discard", "delete remove"),
    ("restart reboot bounce recreate", "recycle"),
    ("kill terminate abort cancel", "end"),
    ("truncate", ""),
    ("stop shutdown halt", ""),
    ("disable deactivate", "off"),
    ("drain cordon evict", ""),
    ("failover promote switchover demote", "takeover"),
    ("reformat format", ""),
    ("rollback revert undo", ""),
    ("reset", ""),
    ("flush flushall flushdb", ""),
    ("revoke", ""),
    ("overwrite replace", ""),
    ("reinstall rebuild reinitialize", "resync"),
    ("unplug disconnect detach", ""),
    ("bypass skip ignore", ""),
    ("uninstall destroy", ""),
    ("fence", ""),
)
"""Verbs for what is hard to take back, and further words by which a step may call the same."""

IRREGULAR: Final = (
    "ran=run lost=lose kept=keep sent=send found=find held=hold wrote=write written=write began=begin broken=break "
    "broke=break took=take taken=take grew=grow fell=fall fallen=fall behind=behind indices=index indexes=index "
    "replicas=replica queries=query processes=process status=status access=access process=process died=die dies=die "
    "dying=die frees=free freed=free freeing=free came=come went=go shown=show seen=see shrunk=shrink stopped=stop "
    "stopping=stop owning=own rebuilt=rebuild overwrote=overwrite running=running does=do committed=commit "
    "automatically=automatic standbys=standby standbies=standby seconds=second left=left changing=change "
    "changed=change moved=move moving=move chosen=choose restoring=restore"
)
"""Forms that no rule of endings leads to their word."""

OPPOSITES: Final = (
    "start/stop enable/disable increase/decrease raise/lower grow/shrink add/remove open/close pause/resume more/fewer "
    "maximum/minimum first/last first/second attach/detach lock/unlock grant/revoke allow/deny accept/reject "
    "upgrade/downgrade promote/demote primary/replica primary/standby primary/secondary master/replica leader/follower "
    "source/target source/replica up/down on/off safe/unsafe read/write inside/outside cordon/uncordon mount/unmount "
    "healthy/unhealthy online/offline greater/smaller higher/lower highest/lowest faster/slower oldest/newest old/new "
    "old/current new/existing local/remote idle/active most/least keep/lose commit/rollback running/waiting "
    "running/sleeping big/small long/short longer/shorter longest/shortest inactive/active begin/end client/server "
    "internal/external public/private hot/cold left/right manual/automatic"
)
"""A word and its opposite: they part two sentences that are otherwise alike."""

KINDS_OF_THINGS: Final = word_set(
    "table index database schema collection pod deployment statefulset service slot user role key node container "
    "volume topic queue session connection process instance server file directory"
)
"""What a command names before the name of the very thing: `drop table` alone says too little to be right."""

PARTICLES: Final = (("on", "off"), ("up", "down"), ("with", "without"), ("into", "out"))

POSSIBLE: Final = word_set("may might can could")
NECESSARY: Final = word_set("must need needs required")

NUMBER_WORDS: Final = dict(
    pair.split("=")
    for pair in [
        "zero=0",
        "two=2",
        "three=3",
        "four=4",
        "five=5",
        "six=6",
        "seven=7",
        "eight=8",
        "nine=9",
        "ten=10",
        "eleven=11",
        "twelve=12",
        "fifteen=15",
        "twenty=20",
        "thirty=30",
        "forty=40",
        "fifty=50",
        "sixty=60",
        "ninety=90",
        "hundred=100",
        "thousand=1000",
        "twice=2",
    ]
)
