"""What is missing: the best tails for (head, relation), or the best heads for (relation, tail).

The given end may be known, or new and tied to known entities by triples that were added, or by the --given ones.
Without --relation: everything likely about an entity, over all relations that fit it. With --questions: the answers to
all questions of a file (columns head, relation, tail, or entity).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ookg.cli.console import (
    add_alone_option,
    add_format_options,
    add_json_option,
    add_language_option,
    add_model_argument,
    add_prefix_option,
    add_refine_options,
    add_vectors_option,
    add_weight_options,
    check_output,
    chosen_limit,
    chosen_prefixes,
    chosen_refine,
    chosen_weights,
    load_current,
    meant,
    namer,
    names_among,
    note,
    print_json,
    print_notes,
    print_table,
    read_given,
    shortener,
    triple_names,
    trust_in_words,
    whole_number,
    with_vectors,
)

if TYPE_CHECKING:
    from ookg.extension.answers import Answer, LinkReason, Prediction
    from ookg.extension.extended import ExtendedModel
    from ookg.extension.likely import End
    from ookg.extension.questions import AnswerOptions, Question
    from ookg.graph.frames import NamedTabular
    from ookg.graph.names import Names
    from ookg.model.model import Model
    from ookg.newcomers.refinement import RefineSettings
    from ookg.scoring.approximate import ApproximateIndex

MOST_SHARES, MOST_TRIPLES = 5, 10  # of an answer, and of a vector, that are printed
SUMMARY = "what is missing about an entity, and why"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_argument(parser)
    parser.add_argument("--given", metavar="TRIPLES", help="more triples about new entities, for this call alone")
    add_vectors_option(parser)
    parser.add_argument("--head", metavar="H", help="ask for the tails of this head")
    parser.add_argument("--relation", metavar="R", help="the relation that is asked for (all that fit the entity)")
    parser.add_argument("--tail", metavar="T", help="ask for the heads of this tail")
    parser.add_argument("--entity", metavar="E", help="without --relation: ask for all that is likely, at either end")
    parser.add_argument("--questions", metavar="FILE", help="ask many (.parquet, .csv, .tsv, .jsonl); needs --out")
    parser.add_argument("--out", metavar="FILE", help="write the answers there (.parquet, .csv, .tsv, .jsonl)")
    parser.add_argument("--overwrite", action="store_true", help="replace the file of --out")
    parser.add_argument(
        "--min-probability", type=float, metavar="P", help="leave out answers that are less likely to be right"
    )
    parser.add_argument("--top", type=whole_number, default=10, metavar="K", help="how many answers (10)")
    parser.add_argument(
        "--known-answers",
        choices=("drop", "mark"),
        default="drop",
        help="leave out answers that training or given triples state (default), or keep and mark them",
    )
    parser.add_argument(
        "--candidates", choices=("all", "known"), default="all", help="answer with new entities too (all), or not"
    )
    parser.add_argument("--blank-nodes", action="store_true", help="RDF: answer with nodes that have no name too")
    parser.add_argument("--explain", action="store_true", help="show what speaks for each answer against the next ones")
    parser.add_argument(
        "--approximate", action="store_true", help="score what the index names, which `ookg index` made, and not all"
    )
    add_prefix_option(parser)
    add_language_option(parser)
    add_alone_option(parser)
    add_json_option(parser)
    add_weight_options(parser, "by the newcomer's number of triples; correlation with --refine or --[no-]combine")
    add_refine_options(parser, combines=True)
    add_format_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Predict and print, or write."""
    from ookg.errors import InputError
    from ookg.extension.questions import AnswerOptions, Question
    from ookg.graph.tables import table_ending

    named = [name for name in ("head", "tail", "entity", "questions") if getattr(arguments, name) is not None]
    if len(named) != 1 and arguments.relation is None:
        raise InputError("give one of --head, --tail, --entity and --questions")
    if arguments.relation is not None and {"entity", "questions"} & set(named):
        raise InputError(f"--relation with --{named[-1]}, which brings its own; leave it out")
    if arguments.questions is not None and arguments.explain:
        raise InputError("--explain with --questions; ask one question to see its reasons, or leave it out")
    if arguments.explain and arguments.relation is None and arguments.questions is None:
        raise InputError("--explain without --relation; ask one question to see its reasons, or leave it out")
    if arguments.approximate and arguments.relation is None and arguments.questions is None:
        raise InputError("--approximate without --relation; all that is likely takes the scores of all entities")
    if arguments.questions is not None and arguments.out is None:
        raise InputError("--questions without --out; name the file to write the answers to")
    if arguments.out is not None:
        check_output(
            arguments.out, [arguments.given, arguments.questions], arguments.model, overwrite=arguments.overwrite
        )
        table_ending(arguments.out)
    current = load_current(arguments, alone=arguments.alone)
    model, names = with_vectors(arguments, current.model), current.model.names
    triples = read_given(arguments, arguments.given, model) if arguments.given else None
    if triples is not None and (called := names_among(triples, arguments.given, arguments.language.split(","))):
        names = called.with_more(names)
    given = current.given(triples)
    refine: bool | RefineSettings | None = chosen_refine(arguments, model)
    if arguments.combine is not None and refine is None:
        refine = False
    options = AnswerOptions(
        arguments.combine,
        arguments.top,
        arguments.known_answers == "drop",
        arguments.candidates == "all",
        arguments.min_probability,
        arguments.blank_nodes,
        arguments.explain,
        _index(model) if arguments.approximate else None,
    )
    extended = model.extend(given, weights=chosen_weights(arguments), limit=chosen_limit(arguments), refine=refine)
    asking = _Asking(arguments, extended, names, chosen_prefixes(arguments), options)
    if arguments.questions is not None:
        return asking.many()
    if arguments.relation is None:
        return asking.everything()
    head, tail = (asking.entity(text) for text in (arguments.head, arguments.tail))
    return asking.one(Question(asking.relation(arguments.relation), head, tail))


def _index(model: Model) -> ApproximateIndex:
    from ookg.model.approximate import stored_index

    return stored_index(model)


@dataclass(frozen=True, eq=False)
class _Asking:
    """What the command asks, and how it shows the answers."""

    arguments: argparse.Namespace
    extended: ExtendedModel
    names: Names
    prefixes: Mapping[str, str]
    options: AnswerOptions

    def entity(self, text: str | None, *, quiet: bool = False) -> str | None:
        """The id of an entity that a text means."""
        if text is None:
            return None
        return meant(text, "entity", self.names, self.extended.has_entity, self.prefixes, quiet=quiet)

    def relation(self, text: str, *, quiet: bool = False) -> str:
        """The id of a relation that a text means."""
        return meant(text, "relation", self.names, self.extended.has_relation, self.prefixes, quiet=quiet)

    def many(self) -> int:
        """The questions of a file."""
        from ookg.extension.bulk import Asked, Everything, answer_all, check_questions, read_questions
        from ookg.extension.questions import Question
        from ookg.graph.tables import write_table
        from ookg.scoring.approximate import INDEX_SERVES
        from ookg.system.display import counted
        from ookg.system.progress import Progress

        def by_id(one: Asked) -> Asked:
            if isinstance(one, Everything):
                return Everything(self.entity(one.entity, quiet=True) or "", one.end)
            ends = (self.entity(text, quiet=True) for text in (one.head, one.tail))
            return Question(self.relation(one.relation, quiet=True), *ends)

        asked = [by_id(one) for one in read_questions(self.arguments.questions)]
        check_questions(self.arguments.questions, self.extended, asked)
        print_notes(self.extended.notes)
        with Progress("answering", len(asked), "questions") as report:
            answers = answer_all(self.extended, asked, self.options, report, self.names)
        if self.options.approximate is not None:
            note(f"note: {INDEX_SERVES}, with {self.options.approximate.recall:.1%} of the ten best")
        write_table(self.arguments.out, answers)
        told = f"{counted(answers.num_rows, 'answer')} to {counted(len(asked), 'question')}"
        note(f"{self.arguments.out}: {told}")
        if self.arguments.json:
            print_json({"questions": len(asked), "answers": answers.num_rows, "out": self.arguments.out})
        return 0

    def everything(self) -> int:
        """All that is likely about an entity."""
        arguments, shown = self.arguments, namer(self.arguments, self.names)
        label = self.entity(arguments.head or arguments.tail or arguments.entity) or ""
        end: End = "head" if arguments.head is not None else "tail" if arguments.tail is not None else "both"
        likely = self.extended.likely(label, end, self.options)
        print_notes(self.extended.notes)
        self._write(likely)
        is_measured = any(one.answer.probability is not None for one in likely)
        print_notes(likely.notes)
        if arguments.json:
            rows = [_triple(one.triple, self.names) | self._answer(one.answer) for one in likely]
            print_json({"question": {"entity": label, "end": end}, "answers": rows})
            return 0
        columns = ("rank", "head", "relation", "tail", "score", "probability")
        table = [
            (one.answer.rank, *map(shown, one.triple), one.answer.score, _percent(one.answer.probability))
            for one in likely
        ]
        kept = len(columns) if is_measured else len(columns) - 1
        print_table(columns[:kept], [row[:kept] for row in table], f"what is likely about {shown(label)}")
        return 0

    def one(self, question: Question) -> int:
        """One question."""
        from ookg.scoring.approximate import INDEX_SERVES

        arguments, names = self.arguments, self.names
        prediction = self.extended.predict_all([question], self.options)[0]
        print_notes(self.extended.notes)
        self._write(prediction)
        if arguments.json:
            print_json(self._document(question, prediction))
            return 0
        short, shown = shortener(arguments), namer(arguments, names)
        entity = shown(question.asked)
        triple = f"({shown(question.head or '?')}, {shown(question.relation)}, {shown(question.tail or '?')})"
        marks = {(True, True): "known, new", (True, False): "known", (False, True): "new", (False, False): ""}
        columns: dict[str, list[object]] = {
            "rank": [a.rank for a in prediction.answers],
            "entity": [short(a.entity) for a in prediction.answers],
            "name": [names.name(a.entity) or "" for a in prediction.answers],
            "score": [a.score for a in prediction.answers],
            "probability": [_percent(a.probability) for a in prediction.answers],
            "": [marks[a.is_known, a.is_new] for a in prediction.answers],
            "a link that speaks for it": [_link_in_words(entity, a, shown) for a in prediction.answers],
        }
        for name in ("name", "probability", "a link that speaks for it"):
            if not any(columns[name]):
                del columns[name]
        print_table(tuple(columns), list(zip(*columns.values(), strict=True)), triple)
        if prediction.recall is not None:
            recall = f"such answers have {prediction.recall:.1%} of the ten best"
            print(f"\napproximate: {recall}, as `ookg index` measured; scores are exact")
        elif arguments.approximate:
            print(f"\nanswered exactly: {INDEX_SERVES}")
        if arguments.explain:
            _print_reasons(prediction.answers, shown)
        if prediction.trust is not None:
            without = prediction.way is not None and self.extended.model.measured_without_network
            print(f"\n{entity} is new: {trust_in_words(prediction.trust, measured_without_network=without)}")
        if prediction.way is not None:
            print(f"answered by the {prediction.way}")
        if arguments.explain:
            _print_explanation(prediction, entity, shown, is_fitted=arguments.refine)
        return 0

    def _write(self, result: NamedTabular) -> None:
        from ookg.graph.frames import with_names
        from ookg.graph.tables import write_table
        from ookg.system.display import counted

        if self.arguments.out is not None:
            table = with_names(result.id_table(), self.names)
            write_table(self.arguments.out, table)
            note(f"{self.arguments.out}: {counted(table.num_rows, 'answer')}")

    def _answer(self, answer: Answer) -> dict[str, Any]:
        link = None if answer.link is None else _link(answer.link, self.names)
        values = {"entity": answer.entity, "name": self.names.name(answer.entity), "score": answer.score}
        values |= {"rank": answer.rank, "probability": answer.probability}
        return values | {
            "known": answer.is_known,
            "new": answer.is_new,
            "link": link,
            "reasons": [why.to_dict() for why in answer.reasons],
            "lead": answer.lead if answer.shares else None,
            "shares": [share.to_dict() for share in answer.shares],
        }

    def _document(self, question: Question, prediction: Prediction) -> dict[str, Any]:
        """The question and its answers as plain values; names are null where there are none."""
        names = self.names
        explanation = [
            vars(reason) | {"name": names.name(reason.entity), "relation_name": names.name(reason.relation)}
            for reason in prediction.explanation
        ]
        return {
            "question": _triple((question.head, question.relation, question.tail), names),
            "answers": [self._answer(answer) for answer in prediction.answers],
            "explanation": explanation,
            "trust": None if prediction.trust is None else prediction.trust.to_dict(),
            "way": prediction.way,
            "recall": prediction.recall,
        }


def _triple(triple: tuple[str | None, ...], names: Names) -> dict[str, Any]:
    return dict(zip(("head", "relation", "tail"), triple, strict=True)) | triple_names(triple, names)


def _percent(probability: float | None) -> str:
    return "" if probability is None else f"{probability:.1%}"


def _print_explanation(prediction: Prediction, entity: str, shown: Callable[[str], str], *, is_fitted: bool) -> None:
    """What the vector of the asked entity is made of."""
    if not prediction.explanation:
        mixture = "its triples count as far as a mixture of them comes near that vector"
        print(f"\n{entity} is known: its vector was trained; {mixture}")
        return
    reasons = []
    for reason in prediction.explanation:
        neighbor, relation = shown(reason.entity), shown(reason.relation)
        ends = (entity, relation, neighbor) if reason.direction == "out" else (neighbor, relation, entity)
        reasons.append((f"{reason.weight:.1%}", *ends))
    made = f"what the vector of {entity} is made of"
    if is_fitted or (prediction.way or "").startswith("fitted"):
        made = f"what the vector of {entity} was fitted to, and with which weights that began"
    print_table(("weight", "head", "relation", "tail"), reasons[:MOST_TRIPLES], f"\n{made}")
    if len(reasons) > MOST_TRIPLES:
        print(f"... and {len(reasons) - MOST_TRIPLES:,} more; --json lists them all")


def _link(link: LinkReason, names: Names) -> dict[str, Any]:
    via = None if link.via is None else names.name(link.via)
    return vars(link) | {"relation_name": names.name(link.relation), "via_name": via}


def _print_reasons(answers: Sequence[Answer], shown: Callable[[str], str]) -> None:
    """What each answer is ahead by, and what makes that: evidence in words, triples by what they do to the vector."""
    print("\nwhat puts each answer ahead of the next ones: parts of the difference in score, which add up")
    for answer in answers:
        ahead = f"{answer.lead:+.2f}" if answer.shares else "nothing ranks below it"
        print(f"{answer.rank:>4}  {shown(answer.entity)}  {ahead}")
        for share in answer.shares[:MOST_SHARES]:
            print(f"      {_signed(share.worth)}  {share.text(shown)}")
        others = answer.shares[MOST_SHARES:]
        if others:
            rest = _signed(sum(share.worth for share in others))
            print(f"      {rest}  {len(others):,} more; --json lists them")
        counted = {share.reason for share in answer.shares[:MOST_SHARES] if share.worth > 0}
        for reason in answer.reasons:
            if reason not in counted:
                print(f"               also: {reason.text(shown)}")


def _signed(worth: float) -> str:
    """A part with its sign; none for what rounds to nothing."""
    return f"{worth:>+7.2f}" if abs(worth) >= 0.005 else f"{'0.00':>7}"


def _link_in_words(asked: str, answer: Answer, shown: Callable[[str], str]) -> str:
    """The link of the asked entity that speaks for an answer, and how far."""
    if answer.link is None:
        return ""
    relation, other = shown(answer.link.relation), shown(answer.link.via or answer.entity)
    ends = (asked, relation, other) if answer.link.direction == "out" else (other, relation, asked)
    return f"{' '.join(ends)} ({answer.link.confidence:.0%})"
