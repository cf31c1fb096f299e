"""Interventions, uncertain observations, conditional tables, events, what to observe next."""

import csv
import io
import json

import pytest

import deltaai as dai


@pytest.fixture(scope="module")
def model():
    return dai.example("asia")


def test_what_is_set_and_what_is_likely(run, model, tmp_path):
    code, out, err = run("query", "asia", "--do", "lung=yes", "--of", "smoke,lung", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["marginals"]["smoke"]["yes"] == pytest.approx(0.5)
    assert json.loads(out)["marginals"]["lung"]["yes"] == 1.0
    for words in (("xray=yes:0.9,no:0.1",), ("xray=0.9,0.1",)):
        code, out, _ = run("query", "asia", "--likelihood", *words, "--of", "lung", "--json")
        wanted = dai.query(model, likelihood={"xray": [0.9, 0.1]})
        found = json.loads(out)["marginals"]["lung"]["yes"]
        assert (code, found) == (0, pytest.approx(wanted.marginals["lung"][0]))
    cases = tmp_path / "cases.csv"
    cases.write_text("xray\nyes\n")
    given = ("--evidence-file", cases, "--do", "lung=yes", "--likelihood", "smoke=0.9,0.1")
    code, out, _ = run("query", "asia", *given, "--of", "smoke", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert (code, len(rows)) == (0, 1)
    assert float(rows[0]["smoke=yes"]) == pytest.approx(0.9)


def test_conditional_tables(run, model):
    asked = ("conditional", "asia", "lung", "--given", "smoke,bronc", "-e", "xray=yes")
    code, out, err = run(*asked)
    assert (code, err) == (0, "")
    for said in ("0.6460", "lung=yes", "exact"):
        assert said in out
    told = json.loads(run(*asked, "--json")[1])
    wanted = dai.conditional(model, "lung", ["smoke", "bronc"], {"xray": "yes"}).table
    assert told["rows"][2]["given"] == {"smoke": "no", "bronc": "yes"}
    assert told["rows"][2]["probabilities"]["yes"] == pytest.approx(wanted[1, 0, 0])
    rows = list(csv.DictReader(io.StringIO(run(*asked, "--csv")[1])))
    assert float(rows[0]["lung=no"]) == pytest.approx(wanted[0, 0, 1])


def test_what_to_observe_next_and_what_does_not_fit(run, model):
    code, out, err = run("informative", "asia", "lung", "-e", "dysp=yes")
    assert (code, err) == (0, "")
    assert out.index("either") < out.index("xray") < out.index("smoke")
    told = json.loads(run("informative", "asia", "lung", "--among", "xray,smoke", "--json")[1])
    wanted = dai.informative(model, "lung", among=["xray", "smoke"])
    assert told["information"] == pytest.approx(wanted.information)
    assert told["status"] == "exact"
    rows = list(csv.DictReader(io.StringIO(run("informative", "asia", "lung", "--csv")[1])))
    assert rows[0]["variable"] == "either"
    code, out, _ = run("conflict", "asia", "-e", "xray=yes,smoke=no,dysp=no")
    assert (code, "do not fit together" in out) == (0, True)
    told = json.loads(run("conflict", "asia", "-e", "xray=yes,lung=yes", "--json")[1])
    assert told["conflict"] < 0
    assert told["findings"]["lung"]["alone"] == pytest.approx(0.055)


@pytest.mark.parametrize(
    ("event", "others"),
    [
        ("lung=yes or tub=yes", ["either=yes"]),
        ("not (lung=no and tub=no)", ["either=yes"]),
        ("lung!=no OR 'tub'=\"yes\"", ["either=yes"]),
        ("lung=yes and lung=no", []),
        ("smoke=yes and lung=yes or smoke=no and lung=yes", ["lung=yes"]),
    ],
)
def test_events(run, model, event, others):
    code, out, err = run("probability", "asia", event, "-e", "dysp=yes", "--json")
    assert (code, err) == (0, "")
    wanted = 0.0
    for other in others:
        wanted = float(dai.probability(model, other, {"dysp": "yes"}))
        name = other.split("=")[0]
        assert wanted == pytest.approx(dai.query(model, {"dysp": "yes"}).marginals[name][0])
    assert json.loads(out)["probability"] == pytest.approx(wanted)
    assert event.split()[0].strip("(") in run("probability", "asia", event)[1]


def test_a_sampled_event_has_an_error(model):
    exact = dai.probability(model, "lung=yes or bronc=yes")
    found = dai.probability(model, "lung=yes or bronc=yes", method="sampler", num_samples=4000)
    assert (exact.status, exact.stderr, found.status) == ("exact", 0.0, "estimated")
    assert 0 < found.stderr < 0.02
    assert float(found) == pytest.approx(float(exact), abs=5 * found.stderr)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["query", "asia", "--do", "lung"], "not of the form name=state"),
        (["query", "asia", "--do", "lung=yes", "-e", "lung=no"], "both observed and set"),
        (["query", "grid", "--do", "x0=#1"], "interventions are for directed models"),
        (["query", "asia", "--likelihood", "lung"], "not of the form name=state:number"),
        (["query", "asia", "--likelihood", "lung=yes:much"], "which is no number"),
        (["query", "asia", "--likelihood", "lung=yes:0.5,0.5"], "names some states"),
        (["query", "asia", "--likelihood", "lung=yes:1,yes:1"], "names a state twice"),
        (["query", "asia", "--likelihood", "lung=1,2,3"], "give 2 numbers"),
        (["query", "asia", "--likelihood", "lang=1,2"], "no variable 'lang'"),
        (["query", "asia", "--likelihood", "lung=1,2", "--likelihood", "lung=1,2"], "twice"),
        (["query", "asia", "--target-stderr", "0"], "target_stderr is 0"),
        (["conditional", "asia", "lung"], "--given is missing"),
        (["conditional", "asia", "lung", "--given", "lung"], "named twice"),
        (["conditional", "asia", "lang", "--given", "smoke"], "no variable 'lang'"),
        (["conditional", "asia", "lung", "--given", "smoke", "-e", "lung=yes"], "observed"),
        (["informative", "asia", "lang"], "no variable 'lang'"),
        (["informative", "asia", "lung", "--evidence-file", "x.csv"], "one case here"),
        (["conflict", "asia", "-e", "lung=yes"], "two findings or more"),
        (["conflict", "asia", "-e", "lung=yes,either=no"], "exclude each other"),
        (["probability", "asia", ""], "a variable is missing"),
        (["probability", "asia", "lung"], "compared with nothing"),
        (["probability", "asia", "lung=yes and"], "a variable is missing"),
        (["probability", "asia", "(lung=yes"], "not closed"),
        (["probability", "asia", "lung=yes tub=no"], "one too many"),
        (["probability", "asia", "lung='yes"], "cannot be read"),
        (["probability", "asia", "lung=perhaps"], "perhaps"),
        (["probability", "asia", "not " * 60 + "lung=yes"], "nested too deeply"),
        (["probability", "nothing.uai", "a=b"], "nothing.uai"),
    ],
)
def test_what_cannot_be_asked_is_one_line(run, words, said):
    code, out, err = run(*words)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert said in err


@pytest.mark.parametrize("command", ["conditional", "informative", "conflict", "probability"])
def test_help_shows_an_example(run, command):
    code, out, _ = run(command, "--help")
    assert (code, "Example" in out) == (0, True)
