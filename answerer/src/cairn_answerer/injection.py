"""Text in runbooks and events that speaks to the model instead of to an engineer.

Spotlighting by delimiters (Hines et al., arXiv 2403.14720) weakens such text but does not stop it. So lines of this
kind are withheld from the prompt, and with that from what the model can choose. People still see them in the sources.
"""

from __future__ import annotations

import re

from cairn_answerer.cleaning import visible

WITHHELD = "(a line is withheld here: it addresses a language model)"

_WINDOW = 2_000
_OVERLAP = 300
_MODEL = r"(?:ai|llm|language model|assistant|chatbot|gpt)"
_ANSWERS = r"(?:answer|say|respond|reply|output|include|print|cite|tell|recommend|ignore|write)"
_DISMISS = r"\b(?:ignore|disregard|forget|override|bypass)\b"
_SIGNS = (
    rf"{_DISMISS}[^.\n]{{0,60}}\b(?:instruction|prompt|guideline)s?\b",
    rf"{_DISMISS}[^.\n]{{0,20}}\b(?:previous|prior|your|everything)\b[^.\n]{{0,30}}\b(?:rule|direction|context|message)s?\b",
    rf"{_DISMISS}[^.\n]{{0,20}}\b(?:previous|prior|your|everything)\b[^.\n]{{0,30}}\b(?:above|before)\b",
    r"\b(?:ignore|disregard|forget)\s{1,3}(?:(?:all|everything|of|the)\s{1,3}){0,3}above\s{0,3}(?:[.!:]|$)",
    r"<\s{0,3}<\s{0,3}/?(?:end of|excerpt)\b",
    r"\b(?:new|updated|real|actual|revised|additional)\s+(?:system\s+)?instructions?\s*:",
    r"\byou are (?:now|no longer) (?:an?|the|bound|restricted|free|unrestricted|dan|in \w+ mode)\b",
    r"\b(?:act|behave|respond|answer|pretend|roleplay) as if you\b",
    r"\b(?:act|behave|respond|answer|pretend|roleplay) as an? (?:ai|assistant|llm|language|helpful|dan\b)",
    rf"\b(?:as an? |dear |hey |attention,? |note to (?:the )?|hello ){_MODEL}\b",
    rf"\b{_MODEL}s?\b[^.\n]{{0,30}}\b(?:must|should|shall|have to|need to|will)\b[^.\n]{{0,30}}\b{_ANSWERS}\b",
    r"\b(?:your|the) system prompt\b",
    r"\b(?:reveal|repeat|print|show|output|leak)\b[^.\n]{0,20}\b(?:your|system|hidden)\b[^.\n]{0,20}\b(?:prompt|instruction)s?\b",
    (
        r"(?:^|[.!:]\s{1,3}|\b(?:you (?:must|should|will)|always|please|only) )(?:respond|reply|answer)\b[^.\n]{0,30}"
        r"\b(?:json|the following|this (?:format|sentence|json)|the (?:word|text|string|phrase|sentence))\b"
    ),
    r"\b(?:when|if|whenever)\b[^.\n]{0,40}\b(?:answering|summari[sz]ing|asked about|a user asks|the user asks)\b",
    r"<\|?/?(?:im_start|im_end|system|endoftext|assistant|user|begin_of_text|eot_id|start_header_id)\|?>",
    r"\[/?(?:INST|SYS|SYSTEM)\]|<</?SYS>>",
    r"^\s{0,20}(?:[#>*-]{1,6}\s{1,4})?\**(?:system|assistant|human)\**\s{0,3}:",
    r"\"answerable\"\s{0,5}:|\"(?:items|claims)\"\s{0,5}:\s{0,5}\[",
)
"""Bounded repetitions only: linear time on any line."""

_COMPILED = tuple(re.compile(sign, re.IGNORECASE) for sign in _SIGNS)


def speaks_to_the_model(line: str) -> bool:
    """`line` reads as an instruction to a language model."""
    windows = [line[start : start + _WINDOW] for start in range(0, max(1, len(line)), _WINDOW - _OVERLAP)]
    return any(sign.search(window) for window in windows for sign in _COMPILED)


def withheld_stretches(text: str) -> list[tuple[int, int]]:
    """The lines of `text` that speak to a language model, as [start, end) of its characters; invisible ones count."""
    found: list[tuple[int, int]] = []
    start = 0
    for line in text.split("\n"):
        if speaks_to_the_model(visible(line)):
            found.append((start, start + len(line) + 1))
        start += len(line) + 1
    return found
