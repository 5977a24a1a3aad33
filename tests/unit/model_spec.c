// SPDX-License-Identifier: Apache-2.0
// Binary forms: what is written is read back, and nothing malformed is taken for a spec.
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/spec.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the four above it
#include <cmocka.h>

static void fill_exec(struct exec_spec *x)
{
	*x = (struct exec_spec){.id = "xaaaabbbbccccddd", .kind = EXEC_JOB, .tty = true, .detached = true,
				.rows = 24, .cols = 80, .umask_bits = 022, .timeout_ms = 1ULL << 40};
	strv_add(&x->argv, "make");
	strv_add(&x->argv, "");
	strv_add(&x->env, "A=b");
	x->cwd = xstrdup("/w");
}

static void fill_cell(struct cell_spec *s)
{
	*s = (struct cell_spec){.sandbox = "saaaabbbbccccddd", .key = "0123456789abcdef0123456789abcdef",
				.machine_id = "f", .profile = PROFILE_ROOT, .nested = true, .strict = true,
				.ends_with_exec = true, .limits = LIMITS_DEFAULT, .expires_unix_ms = 5, .idle_ms = 6,
				.has_exec = true, .ticket = "t", .n_mounts = 2};
	s->hostname = xstrdup("h");
	s->skep_home = xstrdup("/home");
	s->sandbox_dir = xstrdup("/sb");
	s->layer = xstrdup("/l");
	strv_add(&s->lowers, "/lower1");
	strv_add(&s->lowers, "/lower2");
	s->ws_path = xstrdup("/ws");
	s->home = xstrdup("/home/skep");
	strv_add(&s->hide, ".env");
	s->mounts = xcalloc(2, sizeof *s->mounts);
	s->mounts[0] = (struct cell_mount){.src = xstrdup("/a"), .dst = xstrdup("/b"), .writable = true};
	s->mounts[1] = (struct cell_mount){.src = xstrdup("/c"), .dst = xstrdup("/d"), .volume = true};
	fill_exec(&s->exec);
}

static void shape_of(struct cell_spec *s, struct buf *b)
{
	buf_clear(b);
	assert_true(cell_spec_shape(b, s));
}

static void a_shape_is_what_the_cell_is_built_from(void **state)
{
	(void)state;
	struct cell_spec s, t;
	struct err e;
	struct identity who = {.id = "szzzzzzzzzzzzzzz", .machine_id = "m"};
	auto_buf struct buf a = BUF_INIT(100000), b = BUF_INIT(100000);
	fill_cell(&s);
	assert_false(cell_spec_shape(&a, &s)); // it has a name of its own
	free(s.hostname);
	s.hostname = xstrdup(s.sandbox);
	shape_of(&s, &a);
	// who it is, how long it lives and what it runs are not part of it
	cell_spec_identify(&s, &who);
	assert_string_equal(s.hostname, who.id);
	s.has_exec = s.ends_with_exec = false;
	s.expires_unix_ms = s.idle_ms = 99;
	s.net.on = true;
	shape_of(&s, &b);
	assert_int_equal(a.n, b.n);
	assert_memory_equal(a.p, b.p, a.n);
	assert_int_equal(cell_spec_read(a.p, a.n, &t, &e), 0);
	assert_true(!t.sandbox[0] && !t.machine_id[0] && !t.key[0] && !t.has_exec && t.nested && t.strict && t.n_mounts == 2);
	cell_spec_done(&t);
	// where, how and under which limits are
	s.trace_off = true;
	shape_of(&s, &b);
	assert_true(a.n == b.n && memcmp(a.p, b.p, a.n));
	s.trace_off = false;
	s.limits.nofile++;
	shape_of(&s, &b);
	assert_true(a.n == b.n && memcmp(a.p, b.p, a.n));
	// what only it may have is never built ahead
	strv_add(&s.net.files, "TOKEN=placeholder");
	assert_false(cell_spec_shape(&b, &s));
	cell_spec_done(&s);
}

static void a_cell_spec_comes_back(void **state)
{
	(void)state;
	struct cell_spec s, t;
	struct err e = {0};
	auto_buf struct buf b = BUF_INIT(100000), again = BUF_INIT(100000);
	fill_cell(&s);
	cell_spec_write(&b, &s);
	if (cell_spec_read(b.p, b.n, &t, &e))
		fail_msg("%s", e.msg);
	cell_spec_write(&again, &t);
	assert_int_equal(again.n, b.n);
	assert_memory_equal(again.p, b.p, b.n);
	assert_string_equal(t.sandbox, s.sandbox);
	assert_string_equal(t.lowers[1], "/lower2");
	assert_null(t.image);
	assert_null(t.base);
	assert_true(t.mounts[0].writable && !t.mounts[1].writable && !t.mounts[0].volume && t.mounts[1].volume && !t.mounts[1].cache);
	assert_string_equal(t.hide[0], ".env");
	assert_null(t.hide[1]);
	assert_true(t.nested && t.strict && !t.trace_off && !t.maintenance && !t.remove_if_clean);
	assert_memory_equal(&t.limits, &s.limits, sizeof t.limits);
	assert_int_equal(t.exec.kind, EXEC_JOB);
	assert_string_equal(t.exec.argv[1], "");
	assert_null(t.exec.user);
	assert_true(t.exec.timeout_ms == 1ULL << 40);
	cell_spec_done(&s);
	cell_spec_done(&t);
}

// Cut anywhere, and with every single byte changed: refused or read, but never beyond the end (ASan watches).
static void damaged_cell_specs(void **state)
{
	(void)state;
	struct cell_spec s, t;
	struct err e;
	auto_buf struct buf b = BUF_INIT(100000);
	fill_cell(&s);
	cell_spec_write(&b, &s);
	cell_spec_done(&s);
	for (size_t n = 0; n < b.n; n++) {
		auto_free char *exact = xcalloc(n, 1); // its end is where ASan looks
		memcpy(exact, b.p, n);
		assert_int_equal(cell_spec_read(exact, n, &t, &e), -1);
	}
	for (size_t i = 0; i < b.n; i++) {
		b.p[i] ^= (char)0xff;
		if (!cell_spec_read(b.p, b.n, &t, &e))
			cell_spec_done(&t);
		b.p[i] ^= (char)0xff;
	}
	buf_byte(&b, 0);
	assert_int_equal(cell_spec_read(b.p, b.n, &t, &e), -1); // something after the end
}

static void what_a_cell_spec_must_have(void **state)
{
	(void)state;
	struct err e;
	for (int i = 0; i < 8; i++) {
		struct cell_spec s, t;
		auto_buf struct buf b = BUF_INIT(100000);
		fill_cell(&s);
		char **fields[] = {&s.hostname, &s.skep_home, &s.sandbox_dir, &s.layer, &s.ws_path, &s.home};
		if (i < 6) {
			free(*fields[i]);
			*fields[i] = NULL;
		} else if (i == 6) {
			s.profile = PROFILES;
		} else {
			free(s.mounts[0].dst);
			s.mounts[0].dst = NULL;
		}
		cell_spec_write(&b, &s);
		assert_int_equal(cell_spec_read(b.p, b.n, &t, &e), -1);
		assert_int_equal(e.kind, ERR_INVALID);
		cell_spec_done(&s);
	}
}

static void exec_specs(void **state)
{
	(void)state;
	struct exec_spec x, y;
	struct err e;
	auto_buf struct buf b = BUF_INIT(10000);
	fill_exec(&x);
	exec_spec_write(&b, &x);
	struct wire w = {(const uint8_t *)b.p, b.n, false};
	assert_int_equal(exec_spec_read(&w, &y, &e), 0);
	assert_true(y.tty && y.detached && !y.want_stdin && y.rows == 24 && y.cols == 80 && y.umask_bits == 022);
	exec_spec_done(&y);
	buf_clear(&b);
	strv_free(x.argv);
	x.argv = NULL; // nothing to run
	exec_spec_write(&b, &x);
	w = (struct wire){(const uint8_t *)b.p, b.n, false};
	assert_int_equal(exec_spec_read(&w, &y, &e), -1);
	exec_spec_done(&x);
}

static void results_and_isolation(void **state)
{
	(void)state;
	auto_buf struct buf b = BUF_INIT(10000), text = BUF_INIT(10000);
	struct exec_result r = {.status = 137, .signal = 9, .timed_out = true, .out_bytes = 1ULL << 33}, r2;
	struct isolation i = {.landlock = 6, .seccomp_allowed = 300, .caps = 0xff, .no_new_privs = true}, i2;
	struct err e;
	i.backend = xstrdup("native");
	r.reason = xstrdup("timed out");
	exec_result_write(&b, &r);
	isolation_write(&b, &i);
	struct wire w = {(const uint8_t *)b.p, b.n, false};
	assert_int_equal(exec_result_read(&w, &r2), 0);
	assert_int_equal(isolation_read(&w, &i2), 0);
	assert_int_equal(w.n, 0);
	assert_true(r2.status == 137 && r2.signal == 9 && r2.timed_out && r2.out_bytes == 1ULL << 33);
	assert_string_equal(r2.reason, "timed out");
	isolation_json(&text, &i2);
	auto_json json_t *j = json_read(text.p, text.n, &e);
	assert_non_null(j);
	assert_string_equal(json_str(j, "backend"), "native");
	assert_string_equal(json_str(j, "capabilities"), "00000000000000ff");
	assert_int_equal(json_u64(j, "landlock"), 6);
	assert_null(json_object_get(j, "cgroup")); // not shown
	exec_result_done(&r2);
	isolation_done(&i2);
	struct wire cut = {(const uint8_t *)b.p, 10, false};
	assert_int_equal(exec_result_read(&cut, &r2), -1);
	exec_result_done(&r);
	isolation_done(&i);
}

static void profiles(void **state)
{
	(void)state;
	enum profile p;
	assert_int_equal(profile_parse("root", &p), 0);
	assert_int_equal(p, PROFILE_ROOT);
	assert_string_equal(profile_name(PROFILE_USER), "default");
	assert_int_equal(profile_parse("user", &p), -1);
	assert_string_equal(profile_name(PROFILES), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cell_spec_comes_back), cmocka_unit_test(a_shape_is_what_the_cell_is_built_from), cmocka_unit_test(damaged_cell_specs),
		cmocka_unit_test(what_a_cell_spec_must_have), cmocka_unit_test(exec_specs),
		cmocka_unit_test(results_and_isolation), cmocka_unit_test(profiles),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
