// SPDX-License-Identifier: Apache-2.0
// Option tables: every way to write an option, where commands begin, what is refused, and the real tables.
#include "base/mem.h"
#include "base/str.h"
#include "cli/verbs.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
// cmocka wants the headers above it
#include <cmocka.h>

struct values {
	bool flag, other;
	const char *str;
	char **list;
	uint64_t count, size, time, milli;
};

static const struct opt opts[] = {
	FLAG(AT(struct values, flag), "flag", 'f', "a flag"),
	FLAG(AT(struct values, other), "other", 'o', "another"),
	CHOICE(AT(struct values, str), "str", 's', "S", "a string", "one|two|"),
	VALUE(OPT_LIST, AT(struct values, list), "list", 'l', "L", "a list"),
	VALUE(OPT_COUNT, AT(struct values, count), "count", 0, "N", "a count"),
	VALUE(OPT_SIZE, AT(struct values, size), "size", 0, "N", "a size"),
	VALUE(OPT_DURATION, AT(struct values, time), "time", 0, "T", "a time"),
	VALUE(OPT_MILLI, AT(struct values, milli), "milli", 0, "M", "a number"),
	OPTS_END,
};

static struct cmd cmd = {.name = "test",
			 .args = "X",
			 .help = "h",
			 .opts = opts,
			 .opts_size = sizeof(struct values),
			 .max_words = -1,
			 .tail = -1};

struct parsed {
	struct values v;
	struct call c;
	char *words[32];
	bool help;
	struct err e;
	int rc;
};

// argv as one text, split at spaces.
static void parse(struct parsed *p, const char *text)
{
	char **argv = NULL;
	struct str rest = str_of(text), w;
	*p = (struct parsed){0};
	p->c.words = p->words;
	while (*text && str_next(&rest, ' ', &w)) {
		auto_free char *word = xstrndup(w.p, w.n);
		strv_add(&argv, word);
	}
	static char *none[] = {NULL};
	p->rc = opt_parse(&cmd, argv ? argv : none, &p->v, &p->c, &p->help, &p->e);
	// words borrow from argv, which stays: a test leaks it knowingly to the end of the process
	static char ***kept;
	static size_t n_kept;
	kept = xrealloc(kept, (n_kept + 1) * sizeof *kept);
	kept[n_kept++] = argv;
}

static void test_forms(void **state)
{
	struct parsed p;
	(void)state;
	parse(&p, "--flag --str one --str=two --list a -lb -l c --count 7 --size 1.5k --time 2m --milli 0.25 word");
	assert_int_equal(p.rc, 0);
	assert_true(p.v.flag && !p.v.other);
	assert_string_equal(p.v.str, "two");
	assert_int_equal(strv_len(p.v.list), 3);
	assert_string_equal(p.v.list[1], "b");
	assert_int_equal(p.v.count, 7);
	assert_int_equal(p.v.size, 1536);
	assert_int_equal(p.v.time, 120000);
	assert_int_equal(p.v.milli, 250);
	assert_int_equal(p.c.n_words, 1);
	assert_int_equal(p.c.n_before_dashes, -1);
	opt_values_done(&cmd, &p.v);
	parse(&p, "-fo");
	assert_true(p.v.flag && p.v.other && p.v.count == OPT_UNSET);
	parse(&p, "a - --flag b");
	assert_true(p.v.flag && p.c.n_words == 3);
	parse(&p, "--str=");
	assert_string_equal(p.v.str, "");
}

static void test_dashes_and_tails(void **state)
{
	struct parsed p;
	(void)state;
	parse(&p, "a -- --flag -x");
	assert_true(p.rc == 0 && !p.v.flag && p.c.n_words == 3 && p.c.n_before_dashes == 1);
	cmd.tail = 0; // run
	parse(&p, "--flag make --other -j2");
	assert_true(p.rc == 0 && p.v.flag && !p.v.other && p.c.n_words == 3);
	cmd.tail = 1; // exec
	parse(&p, "id --flag ls --other");
	assert_true(p.rc == 0 && p.v.flag && !p.v.other && p.c.n_words == 3);
	parse(&p, "-- ls -l");
	assert_true(p.rc == 0 && p.c.n_before_dashes == 0 && p.c.n_words == 2);
	cmd.tail = -1;
}

static void test_refused(void **state)
{
	static const char *const bad[] = {
		"--nope",    "-x",	   "-fx",	"--flag=1",  "--str",	      "-s", "--str three",
		"--count x", "--count -1", "--size 1q", "--time 1y", "--milli 1.2.3", "--", "---flag"};
	struct parsed p;
	(void)state;
	cmd.min_words = 1;
	for (size_t i = 0; i < countof(bad); i++) {
		parse(&p, bad[i]);
		if (p.rc != -1 || p.e.kind != ERR_INVALID)
			fail_msg("taken: %s", bad[i]);
	}
	parse(&p, "--nope=5 x");
	assert_non_null(strstr(p.e.msg, "--nope"));
	cmd.max_words = 1;
	parse(&p, "a b");
	assert_int_equal(p.rc, -1);
	cmd.min_words = 0;
	cmd.max_words = -1;
}

static void test_help_comes_first(void **state)
{
	struct parsed p;
	(void)state;
	parse(&p, "--help --nope");
	assert_true(p.rc == 0 && p.help);
	parse(&p, "-h");
	assert_true(p.rc == 0 && p.help);
	parse(&p, "--nope --help");
	assert_int_equal(p.rc, -1);
}

// What every real table must keep.
static void test_tables(void **state)
{
	(void)state;
	for (const struct cmd *const *v = verbs; *v; v++) {
		auto_buf struct buf b = BUF_INIT(1 << 20);
		bool letters[128] = {false};
		opt_help(*v, &b);
		assert_false(b.overflow);
		assert_non_null(strstr(b.p, (*v)->help));
		for (const struct opt *o = (*v)->opts; o && o->name; o++) {
			assert_non_null(strstr(b.p, o->name));
			assert_true(o->offset < (*v)->opts_size);
			assert_true((o->kind == OPT_FLAG) == !o->arg);
			assert_false(o->letter && letters[(int)o->letter]);
			letters[(int)o->letter] = true;
			assert_null(strchr(o->help, '\n'));
			for (const struct opt *q = o + 1; q->name; q++)
				assert_string_not_equal(o->name, q->name);
		}
	}
}

static void test_find(void **state)
{
	char image[] = "image", rm[] = "rm", nope[] = "nope";
	char *member[] = {image, rm, NULL}, *plain[] = {rm, image, NULL}, *alone[] = {image, NULL},
	     *none[] = {nope, NULL};
	int words;
	bool family;
	(void)state;
	assert_ptr_equal(verbs_find(member, &words, &family), &cmd_image_rm);
	assert_int_equal(words, 2);
	assert_ptr_equal(verbs_find(plain, &words, &family), &cmd_rm);
	assert_int_equal(words, 1);
	assert_null(verbs_find(alone, &words, &family));
	assert_true(family);
	assert_null(verbs_find(none, &words, &family));
	assert_false(family);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),	cmocka_unit_test(test_dashes_and_tails),
		cmocka_unit_test(test_refused), cmocka_unit_test(test_help_comes_first),
		cmocka_unit_test(test_tables),	cmocka_unit_test(test_find),
	};
	return cmocka_run_group_tests_name("cli/opt", tests, NULL, NULL);
}
