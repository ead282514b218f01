"""Bugs of understanding: what cannot be read, what is asked for again, children, verification, newest-first lists."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_CLIENT = "tests/unit/sources/gitlab/test_client.py"
_WALK = "tests/unit/engine/test_walk.py"
_CHILDREN = "tests/unit/engine/test_child_sync.py"
_SCRUB = "tests/unit/engine/test_scrub.py"
_GAPS = "tests/unit/engine/test_newest_first.py"

MALFORMED = (
    Mutant(
        name="unparsable-time-becomes-0",
        invariant="7",
        file="sources/items.py",
        before="""    except ValueError as error:
        raise ValueError(f"{field}: {error}") from None\n""",
        after="""    except ValueError:
        return 0\n""",
        test=f"{_CLIENT}::test_an_item_that_cannot_be_parsed_is_rejected_and_the_others_are_kept",
        why="The item would stand in 1970, below every watermark, and look complete.",
    ),
    Mutant(
        name="malformed-item-dropped",
        invariant="7",
        file="sources/items.py",
        before="            rejected.append(reject(payload, str(error), locator))\n",
        after="            reject(payload, str(error), locator)\n",
        test="tests/faces/test_ingest.py::test_an_item_that_cannot_be_parsed_is_shown_in_quarantine",
        why="Logged, passed over and forgotten: the watermark moves on past it.",
    ),
    Mutant(
        name="quarantine-never-written",
        invariant="7",
        file="store/mirror/scope_writer.py",
        before="            if batch.rejected:\n",
        after="            if batch.rejected and not batch.cursor:\n",
        test="tests/faces/test_ingest.py::test_an_item_that_cannot_be_parsed_is_shown_in_quarantine",
        why="The same loss, one room further down.",
    ),
    Mutant(
        name="malformed-item-stops-the-page",
        invariant="7",
        file="sources/items.py",
        before="        except (msgspec.DecodeError, ValueError, RecursionError) as error:\n",
        after="        except RecursionError as error:\n",
        test=f"{_CLIENT}::test_an_item_that_cannot_be_parsed_is_rejected_and_the_others_are_kept",
        why="One bad row would stop its list at that page, at every run.",
    ),
    Mutant(
        name="unreadable-child-sweeps-its-siblings",
        invariant="7",
        file="engine/child_sync.py",
        before="        if children.rejected:\n",
        after="        if children.rejected and not children.items:\n",
        test=f"{_CHILDREN}::test_no_children_are_written_before_all_pages_were_parsed",
        why="The child that could not be read would be swept as one that vanished.",
    ),
)

RETRY = (
    Mutant(
        name="quarantine-never-asked-again",
        invariant="quarantine retried",
        file="engine/walk.py",
        before="        await retry_quarantined(self._lister, self._intake)\n",
        after="",
        test=f"{_WALK}::test_a_quarantined_item_is_fetched_alone_and_released_when_readable",
        why="Kept, and never mended.",
    ),
    Mutant(
        name="quarantine-released-by-any-answer",
        invariant="quarantine retried",
        file="engine/intake.py",
        before="        intake.begin(page, intake.store.load(), released=() if again else (entry.key,))\n",
        after="        intake.begin(page, intake.store.load(), released=(entry.key,))\n",
        test=f"{_WALK}::test_a_quarantined_item_that_still_fails_stays_and_does_not_stop_the_walk",
        why="A question that failed would count as an answer.",
    ),
    Mutant(
        name="quarantine-pauses-do-not-grow",
        invariant="quarantine retried",
        file="store/mirror/quarantine.py",
        before="        attempts += 1\n",
        after="        attempts = 1\n",
        test="tests/contract/test_store_quarantine.py::test_an_entry_seen_again_keeps_its_first_date_and_waits_longer",
        why="What never parses would cost a request a minute, for ever.",
    ),
)

SETTLING = (
    Mutant(
        name="settled-at-once",
        invariant="settling",
        file="engine/child_sync.py",
        before="    return server_at is not None and server_at - updated_at >= settle_ms\n",
        after="    return server_at is not None and settle_ms >= 0\n",
        test=f"{_CHILDREN}::test_a_parent_counts_as_settled_by_the_server_clock_of_its_response",
        why="A note written in the minute in which the parent is not touched again is never seen.",
    ),
    Mutant(
        name="settled-by-the-last-pages-clock",
        invariant="settling",
        file="engine/whole.py",
        before="            server_at = page.server_at if server_at is None else server_at\n",
        after="            server_at = page.server_at\n",
        test=f"{_CHILDREN}::test_one_page_of_children_is_read_once_and_several_until_two_passes_agree",
        why="A child added after the first page was answered may be missing from the pass.",
    ),
    Mutant(
        name="unsettled-parent-read-at-every-run",
        invariant="settling",
        file="engine/child_sync.py",
        before="    return Due.FETCH if is_settled(parent.updated_at, server_now, settle_ms) else Due.WAIT\n",
        after="    return Due.FETCH\n",
        test=f"{_CHILDREN}::test_a_parent_that_was_read_and_has_not_settled_is_not_read_again",
        why="Fetched early, a parent is fetched once more when it has settled, and not before.",
    ),
)

CHILDREN = (
    Mutant(
        name="failure-taken-for-no-children",
        invariant="children read whole",
        file="engine/child_sync.py",
        before="                self._fail(parent, error)\n            return\n",
        after="""                self._fail(parent, error)
                empty = await read_lists(())
                self._store.replace([ChildReading(parent, empty, False)])
            return
""",
        test=f"{_CHILDREN}::test_no_children_are_written_before_all_pages_were_parsed",
        why="A connection that broke on page 2 would delete every child.",
    ),
    Mutant(
        name="children-accepted-after-one-pass",
        invariant="children read whole",
        file="engine/whole.py",
        before="        if pages == 1 or seen == agreed:\n",
        after="        if pages >= 1:\n",
        test=f"{_CHILDREN}::test_a_child_that_moved_between_two_pages_is_found_by_the_next_pass",
        why="A child that slid between two pages would be swept as one that vanished.",
    ),
)

SCRUB = (
    Mutant(
        name="any-refusal-buries",
        invariant="scrub buries only what is not found",
        file="sources/gitlab/client.py",
        before="        except RemoteNotFound:\n            return False\n",
        after="        except Exception:\n            return False\n",
        test=f"{_CLIENT}::test_other_errors_do_not_count_as_a_deleted_object",
        why="A revoked right or a failing server would empty the copy.",
    ),
    Mutant(
        name="buried-without-being-asked-for",
        invariant="scrub buries only what is not found",
        file="engine/scrub.py",
        before="        answer = await lister.fetch_one(missing[key])\n",
        after="        answer: Page[R] = Page()\n",
        test=f"{_SCRUB}::test_only_a_not_found_answer_creates_a_tombstone",
        why="Not on its page is not gone: pages shift here too.",
    ),
    Mutant(
        name="unreadable-taken-for-gone",
        invariant="scrub buries only what is not found",
        file="engine/scrub.py",
        before="        if answer.items or answer.rejected:\n",
        after="        if answer.items:\n",
        test=f"{_SCRUB}::test_only_a_not_found_answer_creates_a_tombstone",
        why="An item that cannot be understood exists.",
    ),
)

GAPS = (
    Mutant(
        name="gap-not-kept",
        invariant="descending walk keeps its gap",
        file="engine/newest_first.py",
        before="            self._intake.begin(page, cursor, spans)\n",
        after="            self._intake.begin(page, cursor, [])\n",
        test="tests/properties/test_newest_first.py::test_a_burst_larger_than_one_poll_leaves_no_gap",
        why="An account that posts faster than it is polled loses what lies between two polls.",
    ),
    Mutant(
        name="span-ends-at-its-floor",
        invariant="descending walk keeps its gap",
        file="engine/newest_first.py",
        before="positions[-1].at < gap.floor - overlap_ms\n",
        after="positions[-1].at <= gap.floor - overlap_ms\n",
        test=f"{_GAPS}::test_a_gap_is_closed_by_an_item_below_its_floor_and_not_by_one_at_it",
        why="Two posts of one millisecond: the second stands at the floor, and below the page that reached it.",
    ),
    Mutant(
        name="pinned-post-ends-the-walk",
        invariant="descending walk keeps its gap",
        file="engine/newest_first.py",
        before="            listed = (item.position for item in page.items if item.version.id not in page.pinned)\n",
        after="            listed = (item.position for item in page.items)\n",
        test=f"{_GAPS}::test_a_pinned_item_does_not_end_the_walk",
        why="A pinned post stands on top whatever its age.",
    ),
    Mutant(
        name="gap-below-dropped-when-the-head-is-read",
        invariant="descending walk keeps its gap",
        file="engine/newest_first.py",
        before="    return [replace(below[0], top=highest(top, below[0].top)), *below[1:]] if below else []\n",
        after="    return []\n",
        test="tests/properties/test_newest_first.py::test_a_burst_larger_than_one_poll_leaves_no_gap",
        why="To have read the head says nothing about the gap below it.",
    ),
)

MUTANTS = (*MALFORMED, *RETRY, *SETTLING, *CHILDREN, *SCRUB, *GAPS)
