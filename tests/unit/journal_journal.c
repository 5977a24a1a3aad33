// SPDX-License-Identifier: Apache-2.0
// The journal: chain, lock, segments, recovery of the end, a full disk, and what verify finds.
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "journal/journal.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
// cmocka wants the four above it
#include <cmocka.h>
#include "dir.h"

static void must_open(struct journal *j, int dirfd)
{
	struct err e = {0};
	if (journal_open(j, dirfd, &e))
		fail_msg("%s", e.msg);
}

static void must_append(struct journal *j, const char *body)
{
	struct err e = {0};
	if (journal_append(j, "exec.start", "user", body, false, &e))
		fail_msg("%s", e.msg);
}

static void slurp(int dirfd, const char *name, struct buf *out)
{
	struct err e;
	assert_int_equal(fs_read(dirfd, name, out, &e), 0);
}

static void spew(int dirfd, const char *name, const char *p, size_t n)
{
	struct err e;
	assert_int_equal(fs_write(dirfd, name, p, n, 0600, &e), 0);
}

static struct journal_report verify(int dirfd, uint64_t seq, const char *hash)
{
	struct journal_report r;
	struct err e = {0};
	if (journal_verify(dirfd, seq, hash, &r, &e))
		fail_msg("%s", e.msg);
	return r;
}

static void make_ten(int dirfd, struct journal *out)
{
	must_open(out, dirfd);
	for (int i = 0; i < 10; i++) {
		char body[40];
		assert_int_equal(fmt_to(body, sizeof body, "\"n\":%d", i), 0);
		must_append(out, body);
	}
	journal_close(out);
}

static void lines_are_json_and_chained(void **state)
{
	struct journal j;
	struct err e;
	make_ten(dir_of(state), &j);
	auto_buf struct buf b = BUF_INIT(1 << 20);
	slurp(dir_of(state), "journal", &b);
	char prev[SHA256_HEX];
	memset(prev, '0', 64);
	prev[64] = 0;
	struct str rest = {b.p, b.n}, line;
	for (int i = 0; i < 10; i++) {
		assert_true(str_next(&rest, '\n', &line));
		auto_json json_t *o = json_read(line.p, line.n, &e);
		assert_non_null(o);
		assert_int_equal(json_u64(o, "seq"), i + 1);
		assert_int_equal(json_u64(o, "n"), i);
		assert_string_equal(json_str(o, "prev"), prev);
		assert_string_equal(json_str(o, "type"), "exec.start");
		assert_string_equal(json_str(o, "by"), "user");
		assert_int_equal(strlen(json_str(o, "time")), 24);
		sha256_hex(line.p, line.n, prev);
	}
	assert_string_equal(prev, j.head);
	struct journal_report r = verify(dir_of(state), 10, j.head);
	assert_true(r.ok && !r.torn);
	assert_int_equal(r.events, 10);
}

static void reopening_continues_the_chain(void **state)
{
	struct journal j;
	make_ten(dir_of(state), &j);
	uint64_t bytes = j.bytes;
	must_open(&j, dir_of(state));
	assert_int_equal(j.seq, 10);
	assert_int_equal(j.bytes, bytes);
	must_append(&j, NULL);
	must_append(&j, "");
	assert_int_equal(j.seq, 12);
	journal_close(&j);
	journal_close(&j); // twice is fine
	assert_true(verify(dir_of(state), 12, j.head).ok);
}

static void a_zeroed_one_may_be_closed(void **state)
{
	(void)state;
	struct journal j = {0};
	journal_close(&j); // must not close descriptor 0
	assert_int_not_equal(fcntl(0, F_GETFD), -1);
}

static void there_is_one_writer(void **state)
{
	struct journal a, b;
	struct err e;
	must_open(&a, dir_of(state));
	assert_int_equal(journal_open(&b, dir_of(state), &e), -1);
	assert_int_equal(e.kind, ERR_CONFLICT);
	must_append(&a, NULL); // the failed attempt did not take the lock away
	assert_int_equal(journal_open(&b, dir_of(state), &e), -1);
	journal_close(&a);
	must_open(&b, dir_of(state));
	journal_close(&b);
}

static void the_lock_stays_on_the_first_segment(void **state)
{
	struct journal a, b;
	struct err e;
	must_open(&a, dir_of(state));
	a.segment_max = 1;
	must_append(&a, NULL);
	must_append(&a, NULL);
	must_append(&a, NULL);
	assert_int_equal(a.segment, 2);
	assert_int_equal(journal_open(&b, dir_of(state), &e), -1);
	assert_int_equal(e.kind, ERR_CONFLICT);
	journal_close(&a);
	must_open(&b, dir_of(state));
	assert_int_equal(b.seq, 3);
	assert_int_equal(b.bytes, a.bytes);
	assert_int_equal(b.segment, 2);
	journal_close(&b);
}

static void the_chain_runs_through_segments(void **state)
{
	struct journal j;
	must_open(&j, dir_of(state));
	j.segment_max = 1000;
	for (int i = 0; i < 50; i++)
		must_append(&j, "\"x\":\"0123456789\"");
	assert_true(j.segment >= 5);
	journal_close(&j);
	struct journal_report r = verify(dir_of(state), 50, j.head);
	assert_true(r.ok);
	assert_int_equal(r.events, 50);
	// one segment lost in the middle
	assert_int_equal(unlinkat(dir_of(state), "journal.2", 0), 0);
	assert_false(verify(dir_of(state), 50, j.head).ok);
}

static void an_empty_newest_segment_is_continued(void **state)
{
	struct journal j;
	make_ten(dir_of(state), &j);
	spew(dir_of(state), "journal.1", "", 0);
	must_open(&j, dir_of(state));
	assert_int_equal(j.seq, 10);
	must_append(&j, NULL);
	journal_close(&j);
	assert_true(verify(dir_of(state), 11, j.head).ok);
}

static void an_incomplete_line_is_cut_and_recorded(void **state)
{
	struct journal j;
	struct err e;
	make_ten(dir_of(state), &j);
	auto_fd int fd = openat(dir_of(state), "journal", O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_int_equal(write(fd, "{\"seq\":11,\"ti", 13), 13);
	struct journal_report r = verify(dir_of(state), 10, j.head);
	assert_true(r.ok && r.torn);
	assert_string_equal(r.reason, "incomplete last line");
	// beyond the anchor it is a writer's death; before it, a cut
	r = verify(dir_of(state), 11, j.head);
	assert_false(r.ok);
	must_open(&j, dir_of(state));
	assert_int_equal(j.seq, 11);
	journal_close(&j);
	r = verify(dir_of(state), 11, j.head);
	assert_true(r.ok && !r.torn);
	auto_buf struct buf b = BUF_INIT(1 << 20);
	slurp(dir_of(state), "journal", &b);
	char *last = memrchr(b.p, '\n', b.n - 1);
	auto_json json_t *o = json_read(last + 1, b.n - (size_t)(last + 1 - b.p), &e);
	assert_non_null(o);
	assert_string_equal(json_str(o, "type"), "journal.recovered");
	assert_int_equal(json_u64(o, "bytes"), 13);
}

static void zeros_after_a_power_cut_are_cut(void **state)
{
	struct journal j;
	make_ten(dir_of(state), &j);
	auto_fd int fd = openat(dir_of(state), "journal", O_WRONLY | O_CLOEXEC);
	assert_int_equal(ftruncate(fd, (off_t)j.bytes + 300000), 0);
	must_open(&j, dir_of(state));
	assert_int_equal(j.seq, 11);
	journal_close(&j);
	assert_true(verify(dir_of(state), 11, j.head).ok);
}

static void a_damaged_last_line_is_not_continued(void **state)
{
	struct journal j;
	struct err e;
	make_ten(dir_of(state), &j);
	auto_fd int fd = openat(dir_of(state), "journal", O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_int_equal(write(fd, "hello\n", 6), 6);
	assert_int_equal(journal_open(&j, dir_of(state), &e), -1);
	assert_int_equal(e.kind, ERR_INVALID);
	assert_false(verify(dir_of(state), 0, NULL).ok);
}

static void a_full_disk_leaves_no_piece(void **state)
{
	struct journal j;
	struct err e;
	struct rlimit old, small;
	make_ten(dir_of(state), &j);
	must_open(&j, dir_of(state));
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	small = old;
	small.rlim_cur = j.bytes + 100; // less than a line: the write is short
	setrlimit(RLIMIT_FSIZE, &small);
	int rc = journal_append(&j, "usage", "skep", NULL, true, &e);
	small.rlim_cur = j.bytes;	// nothing at all
	setrlimit(RLIMIT_FSIZE, &small);
	int rc2 = journal_append(&j, "usage", "skep", NULL, false, &e);
	setrlimit(RLIMIT_FSIZE, &old);
	assert_int_equal(rc, -1);
	assert_int_equal(rc2, -1);
	struct stat st;
	assert_int_equal(fstat(j.fd, &st), 0);
	assert_int_equal(st.st_size, j.bytes);
	assert_int_equal(j.seq, 10);
	must_append(&j, NULL);
	journal_close(&j);
	assert_true(verify(dir_of(state), 11, j.head).ok);
}

static void a_long_body_is_replaced(void **state)
{
	struct journal j;
	struct err e;
	must_open(&j, dir_of(state));
	auto_buf struct buf body = BUF_INIT(1 << 20);
	buf_str(&body, "\"x\":\"");
	while (body.n < JOURNAL_LINE_MAX)
		buf_byte(&body, 'x');
	buf_byte(&body, '"');
	must_append(&j, body.p);
	assert_true(j.bytes < 400);
	must_append(&j, NULL);
	assert_int_equal(journal_append(&j, "t", "u", "\"a\":\n1", false, &e), -1);
	body.p[5 + 60000] = 0;
	assert_int_equal(journal_append(&j, body.p, body.p, NULL, false, &e), -1);
	journal_close(&j);
	auto_buf struct buf b = BUF_INIT(1 << 20);
	slurp(dir_of(state), "journal", &b);
	assert_non_null(strstr(b.p, ",\"truncated\":true}\n"));
	assert_true(verify(dir_of(state), 2, j.head).ok);
}

static void strange_names_stay_one_line(void **state)
{
	struct journal j;
	struct err e;
	must_open(&j, dir_of(state));
	assert_int_equal(journal_append(&j, "denied", "a\"b\\\n\x1b\xff", "\"k\":[1,{\"a\":\"b\"}]", true, &e), 0);
	must_append(&j, NULL);
	journal_close(&j);
	assert_true(verify(dir_of(state), 2, j.head).ok);
}

// Line i (from 1) of a text: where it starts and how long it is with its newline.
static struct str nth(const struct buf *b, int i)
{
	const char *p = b->p;
	while (--i)
		p = strchr(p, '\n') + 1;
	return (struct str){p, (size_t)(strchr(p, '\n') + 1 - p)};
}

static void verify_finds_edits(void **state)
{
	struct journal j;
	make_ten(dir_of(state), &j);
	auto_buf struct buf b = BUF_INIT(1 << 20);
	slurp(dir_of(state), "journal", &b);
	for (int i = 1; i <= 10; i++) {
		struct str l = nth(&b, i);
		char *digit = b.p + (l.p - b.p) + l.n - 3; // the n of the body
		*digit ^= 8;
		spew(dir_of(state), "journal", b.p, b.n);
		*digit ^= 8;
		struct journal_report r = verify(dir_of(state), 10, j.head);
		assert_false(r.ok);
		assert_int_equal(r.line, i);
		assert_int_equal(r.events, i - 1);
	}
	for (int i = 1; i < 10; i++) { // the chain's own field
		char *hex = strstr(b.p + (nth(&b, i).p - b.p), "\"prev\":\"") + 20;
		char was = *hex;
		*hex = was == 'a' ? 'b' : 'a';
		spew(dir_of(state), "journal", b.p, b.n);
		*hex = was;
		struct journal_report r = verify(dir_of(state), 10, j.head);
		assert_false(r.ok);
		assert_int_equal(r.line, i);
	}
	spew(dir_of(state), "journal", b.p, b.n);
	assert_true(verify(dir_of(state), 10, j.head).ok);
}

static void expect_bad(void **state, const struct journal *j, struct buf *changed, uint64_t line)
{
	spew(dir_of(state), "journal", changed->p, changed->n);
	struct journal_report r = verify(dir_of(state), 10, j->head);
	assert_false(r.ok);
	assert_int_equal(r.line, line);
	assert_true(r.reason[0]);
	buf_clear(changed);
}

static void add_lines(struct buf *to, const struct buf *from, const char *order)
{
	for (; *order; order++) {
		struct str l = nth(from, *order - 'a' + 1);
		buf_add(to, l.p, l.n);
	}
}

static void verify_finds_removal_reorder_duplicate_truncation(void **state)
{
	struct journal j;
	make_ten(dir_of(state), &j);
	auto_buf struct buf b = BUF_INIT(1 << 20), c = BUF_INIT(1 << 20);
	slurp(dir_of(state), "journal", &b);
	static const struct {
		const char *order;
		uint64_t line;
	} cases[] = {
		{"abcdfghij", 5},  {"bcdefghij", 1},  {"abcdeefghij", 6}, {"abcedfghij", 4},
		{"abcdefghi", 10}, {"jabcdefghi", 1}, {"abc", 4},
	};
	for (size_t i = 0; i < countof(cases); i++) {
		add_lines(&c, &b, cases[i].order);
		expect_bad(state, &j, &c, cases[i].line);
	}
	add_lines(&c, &b, "abc"); // without an anchor a cut end can not be seen
	spew(dir_of(state), "journal", c.p, c.n);
	assert_true(verify(dir_of(state), 0, NULL).ok);
	spew(dir_of(state), "journal", "", 0);
	assert_false(verify(dir_of(state), 10, j.head).ok);
}

static void a_missing_journal(void **state)
{
	struct journal_report r;
	struct err e;
	uint64_t end;
	auto_buf struct buf b = BUF_INIT(1 << 20);
	assert_int_equal(journal_verify(dir_of(state), 0, NULL, &r, &e), -1);
	assert_int_equal(e.kind, ERR_NOT_FOUND);
	assert_false(verify(dir_of(state), 1, "x").ok);
	assert_int_equal(journal_tail(dir_of(state), 0, &b, &end, &e), -1);
	assert_int_equal(e.kind, ERR_NOT_FOUND);
}

static void tail_gives_whole_lines_over_segments(void **state)
{
	struct journal j;
	struct err e;
	must_open(&j, dir_of(state));
	j.segment_max = 1000;
	for (int i = 0; i < 40; i++)
		must_append(&j, NULL);
	auto_buf struct buf all = BUF_INIT(1 << 20), piece = BUF_INIT(700), joined = BUF_INIT(1 << 20);
	uint64_t at = 0, end;
	assert_int_equal(journal_tail(dir_of(state), 0, &all, &end, &e), 0);
	assert_int_equal(end, j.bytes);
	assert_int_equal(all.n, j.bytes);
	while (at < j.bytes) {
		assert_int_equal(journal_tail(dir_of(state), at, &piece, &end, &e), 0);
		assert_true(piece.n && piece.p[piece.n - 1] == '\n');
		assert_int_equal(end, at + piece.n);
		buf_add(&joined, piece.p, piece.n);
		buf_clear(&piece);
		at = end;
	}
	assert_int_equal(joined.n, all.n);
	assert_memory_equal(joined.p, all.p, all.n);
	assert_int_equal(journal_tail(dir_of(state), at, &piece, &end, &e), 0); // at the end: nothing, no error
	assert_int_equal(piece.n, 0);
	assert_int_equal(end, at);
	assert_int_equal(journal_tail(dir_of(state), at + 1, &piece, &end, &e), -1);
	assert_int_equal(e.kind, ERR_INVALID);
	auto_buf struct buf tiny = BUF_INIT(10);
	assert_int_equal(journal_tail(dir_of(state), 0, &tiny, &end, &e), -1);
	assert_int_equal(e.kind, ERR_LIMIT);
	journal_close(&j);
}

static void tail_leaves_an_incomplete_line(void **state)
{
	struct journal j;
	struct err e;
	uint64_t end;
	make_ten(dir_of(state), &j);
	auto_fd int fd = openat(dir_of(state), "journal", O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_int_equal(write(fd, "{\"seq", 5), 5);
	auto_buf struct buf b = BUF_INIT(1 << 20);
	assert_int_equal(journal_tail(dir_of(state), 0, &b, &end, &e), 0);
	assert_int_equal(end, j.bytes);
}

static bool count_line(struct str line, void *arg)
{
	int *left = arg;
	assert_true(line.n && line.p[line.n - 1] == '}');
	return --*left > 0;
}

static void find_takes_only_the_type(void **state)
{
	struct journal j;
	struct err e;
	must_open(&j, dir_of(state));
	j.segment_max = 700;
	for (int i = 0; i < 6; i++) {
		const char *lure = "\"x\":\"\\\"type\\\":\\\"usage\\\"\"";
		assert_int_equal(journal_append(&j, "exec.exit", "skep", lure, false, &e), 0);
		assert_int_equal(journal_append(&j, "usage", "skep", NULL, false, &e), 0);
	}
	journal_close(&j);
	int left = 100;
	assert_int_equal(journal_find(dir_of(state), "usage", count_line, &left, &e), 0);
	assert_int_equal(left, 94);
	left = 100;
	assert_int_equal(journal_find(dir_of(state), NULL, count_line, &left, &e), 0);
	assert_int_equal(left, 88);
	left = 2;
	assert_int_equal(journal_find(dir_of(state), "exec.exit", count_line, &left, &e), 0);
	assert_int_equal(left, 0);
	left = 100;
	assert_int_equal(journal_find(dir_of(state), "exec", count_line, &left, &e), 0);
	assert_int_equal(left, 100);
}

static void a_line_too_long_is_found(void **state)
{
	struct journal j;
	struct err e;
	make_ten(dir_of(state), &j);
	auto_buf struct buf b = BUF_INIT(1 << 20);
	slurp(dir_of(state), "journal", &b);
	size_t whole = b.n;
	while (b.n < whole + 300000)
		buf_str(&b, "xxxxxxxxxxxxxxxx");
	buf_byte(&b, '\n');
	spew(dir_of(state), "journal", b.p, b.n);
	struct journal_report r = verify(dir_of(state), 10, j.head);
	assert_false(r.ok);
	assert_int_equal(r.line, 11);
	assert_int_equal(journal_open(&j, dir_of(state), &e), -1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(lines_are_json_and_chained), T(reopening_continues_the_chain), T(a_zeroed_one_may_be_closed),
		T(there_is_one_writer), T(the_lock_stays_on_the_first_segment), T(the_chain_runs_through_segments),
		T(an_empty_newest_segment_is_continued), T(an_incomplete_line_is_cut_and_recorded),
		T(zeros_after_a_power_cut_are_cut), T(a_damaged_last_line_is_not_continued),
		T(a_full_disk_leaves_no_piece), T(a_long_body_is_replaced), T(strange_names_stay_one_line),
		T(verify_finds_edits), T(verify_finds_removal_reorder_duplicate_truncation), T(a_missing_journal),
		T(tail_gives_whole_lines_over_segments), T(tail_leaves_an_incomplete_line), T(find_takes_only_the_type),
		T(a_line_too_long_is_found),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
