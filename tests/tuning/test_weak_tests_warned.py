"""Weak tests are looked for on an input where a configuration works, and named once."""

from tests.helpers.replays import FormulaMeasurer, make_spec, opened

UNREAD = "a kernel that does not read w would pass"


class Weak(FormulaMeasurer):
    """A measurer whose tests have the same weakness on all inputs."""

    def __init__(self):
        super().__init__()
        self.looked_at = []

    def weak_tests(self, problem):
        """Note the input; return the weakness."""
        self.looked_at.append(problem)
        return [UNREAD]


def warnings(folder, measurer):
    """Tune, and return each warning with the number of tests before it."""
    warned = []
    with opened(make_spec(folder), folder / "r.db", measurer, test_limit=5) as (campaign, tests):
        tests.warn = lambda text: warned.append(f"{len(tests)} {text}")
        campaign.run()
    return warned


def test_a_weakness_is_named_once_and_not_where_nothing_is_measured(tmp_path):
    measurer = Weak()
    first, second = make_spec(tmp_path).inputs
    assert warnings(tmp_path, measurer) == [f"0 verify is weak on {first}: {UNREAD}."]
    assert measurer.looked_at == [first, second]
    again = Weak()
    assert warnings(tmp_path, again) == []
    assert again.looked_at == []
