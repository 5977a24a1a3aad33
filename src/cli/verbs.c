// SPDX-License-Identifier: Apache-2.0
#include "cli/verbs.h"

#include "base/mem.h"
#include "base/str.h"
#include "cli/home.h"
#include "cli/out.h"
#include "cli/words.h"
#include "model/msg.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// In the order of help, which puts a title before the first of each group. Members of a family stand together, behind
// the verb that has its name.
const struct cmd *const verbs[] = {
	&cmd_run, &cmd_new, &cmd_exec, &cmd_shell, &cmd_attach, &cmd_logs, &cmd_kill, &cmd_cp,
	&cmd_diff, &cmd_apply, &cmd_dismiss, &cmd_undo, &cmd_export, &cmd_watch, &cmd_compare, &cmd_race, &cmd_log,
	&cmd_ps, &cmd_show, &cmd_start, &cmd_stop, &cmd_pause, &cmd_resume, &cmd_pin, &cmd_unpin, &cmd_rm,
	&cmd_snapshots, &cmd_snapshot, &cmd_snapshot_rm, &cmd_rollback, &cmd_fork,
	&cmd_policy_show, &cmd_policy_set, &cmd_policy_check, &cmd_policy_explain, &cmd_policy_suggest,
	&cmd_secret_set, &cmd_secret_ls, &cmd_secret_rm, &cmd_trust,
	&cmd_init, &cmd_mcp, &cmd_wrap,
	&cmd_preview, &cmd_ssh, &cmd_code, &cmd_serve, &cmd_token_new, &cmd_token_ls, &cmd_token_rm,
	&cmd_image_ls, &cmd_image_pull, &cmd_image_import, &cmd_image_rm,
	&cmd_volume_create, &cmd_volume_ls, &cmd_volume_rm, &cmd_volume_cp,
	&cmd_doctor, &cmd_gc, &cmd_completion, &cmd_version, &cmd_help, NULL,
};

static const struct {
	const struct cmd *first;
	const char *title;
} groups[] = {
	{&cmd_run, "Run commands"},
	{&cmd_diff, "See what they changed, and take it"},
	{&cmd_ps, "Sandboxes"},
	{&cmd_snapshots, "Go back, and branch off"},
	{&cmd_policy_show, "What a sandbox may reach and use"},
	{&cmd_init, "Agents"},
	{&cmd_preview, "From other programs and places"},
	{&cmd_image_ls, "Images and volumes"},
	{&cmd_doctor, "This machine"},
};

// Two words are looked for first: `snapshot rm` is no snapshot of a sandbox rm.
const struct cmd *verbs_find(char **argv, int *out_words, bool *out_family)
{
	const struct cmd *one = NULL;
	*out_family = false;
	for (const struct cmd *const *v = verbs; argv[0] && *v; v++) {
		struct str rest = str_of((*v)->name), first, second;
		str_next(&rest, ' ', &first);
		if (!str_is(first, argv[0]))
			continue;
		if (!str_next(&rest, ' ', &second)) {
			one = *v;
			continue;
		}
		*out_family = true;
		if (argv[1] && str_is(second, argv[1])) {
			*out_words = 2;
			return *v;
		}
	}
	*out_words = 1;
	return one;
}

static void print_title(struct buf *b, const struct cmd *cmd)
{
	for (size_t i = 0; i < countof(groups); i++)
		if (groups[i].first == cmd)
			buf_fmt(b, "%s%s:\n", i ? "\n" : "", groups[i].title);
}

// Of every verb, or of the members of one family.
static int print_help(const char *family)
{
	auto_buf struct buf b = BUF_INIT(1 << 20);
	if (family)
		buf_fmt(&b, "usage: skep %s VERB [OPTIONS] ...\n\n", family);
	else
		buf_str(&b,
			"usage: skep VERB [OPTIONS] ...\n\n"
			"A place where coding agents work: a real Linux machine for them, out of reach of yours.\n"
			"To begin: skep run -- make test, in a project of yours.\n\n");
	for (const struct cmd *const *v = verbs; *v; v++) {
		size_t n = family ? strlen(family) : 0;
		if (!family)
			print_title(&b, *v);
		if (!family || (!strncmp((*v)->name, family, n) && (*v)->name[n] == ' '))
			buf_fmt(&b, "  %-14s  %s\n", (*v)->name, (*v)->help);
	}
	buf_fmt(&b, "\nskep %s%sVERB --help tells more of one.\n", family ? family : "", family ? " " : "");
	return out_flush(&b);
}

static int print_verb_help(const struct cmd *cmd)
{
	auto_buf struct buf b = BUF_INIT(1 << 20);
	opt_help(cmd, &b);
	return out_flush(&b);
}

static int complain(const char *what, const char *word, const char *help)
{
	auto_buf struct buf b = BUF_INIT(8192);
	buf_fmt(&b, "skep: %s", what);
	out_text(&b, word);
	buf_fmt(&b, " (see skep %s--help)\n", help);
	out_stderr(&b);
	return 2;
}

static bool is_help(const char *word)
{
	return word && (!strcmp(word, "--help") || !strcmp(word, "-h"));
}

// The verb, or the family, whose name is nearest to what was typed; behind family: of its members.
static char *near_verb(const char *word, const char *family)
{
	char **names = NULL;
	size_t n = family ? strlen(family) : 0;
	for (const struct cmd *const *v = verbs; *v; v++) {
		const char *name = (*v)->name;
		if (family && (strncmp(name, family, n) || name[n] != ' '))
			continue;
		auto_free char *own = family ? xstrdup(name + n + 1) : xstrndup(name, strcspn(name, " "));
		strv_add(&names, own);
	}
	const char *found = str_nearest(word, names);
	char *copy = found ? xasprintf("%s%s%s", family ? family : "", family ? " " : "", found) : NULL;
	strv_free(names);
	return copy;
}

static int unknown_verb(const char *word, const char *family)
{
	auto_free char *what = xasprintf("unknown verb %s%s", family ? family : "", family ? " " : "");
	const char *ours = family ? NULL : words_verb(word);
	auto_free char *help = family ? xasprintf("%s ", family) : xstrdup(""), *near = ours ? xstrdup(ours) : near_verb(word, family);
	auto_free char *told = near ? xasprintf("%s: did you mean skep %s?", word, near) : xstrdup(word);
	if (*word == '-')
		return complain("unknown option ", word, help);
	return complain(what, told, help);
}

// A family's name with no member behind it.
static int family_alone(char **argv)
{
	auto_free char *help = xasprintf("%s ", argv[0]);
	if (is_help(argv[1]))
		return print_help(argv[0]);
	if (!argv[1])
		return complain("a verb is missing behind ", argv[0], help);
	return unknown_verb(argv[1], argv[0]);
}

static int refuse_far(const struct call *c)
{
	struct err e;
	err_set(&e, ERR_UNSUPPORTED, "%s: unset SKEP_HOST", c->cmd->here);
	return out_fail(c, &e);
}

static int call_verb(const struct cmd *cmd, char **argv)
{
	struct err e;
	struct call c = {.words = xcalloc(strv_len(argv) + 1, sizeof *c.words)};
	void *values = xcalloc(1, cmd->opts_size);
	bool help = false;
	int status;
	if (opt_parse(cmd, argv, values, &c, &help, &e))
		status = out_usage(&c, &e);
	else if (!help && cmd->here && home_remote())
		status = refuse_far(&c);
	else
		status = help ? print_verb_help(cmd) : cmd->run(&c);
	opt_values_done(cmd, values);
	free(values);
	free(c.words);
	return status;
}

// A caller may have closed them; then the first files we open would be taken for stdin, stdout or stderr.
static void fill_standard_fds(void)
{
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_WRONLY : O_RDONLY) < 0)
			_exit(1);
}

int verbs_main(char **argv)
{
	int words;
	bool family;
	fill_standard_fds();
	if (argv[0] && str_has_suffix(argv[0], "skep-wrap")) // all that follows is the command
		return call_verb(&cmd_wrap, argv + 1);
	if (!argv[0] || !argv[1])
		return complain("a verb is missing", "", "");
	argv++;
	if (is_help(*argv))
		return print_help(NULL);
	if (!strcmp(*argv, "--version"))
		return call_verb(&cmd_version, argv + 1);
	const struct cmd *cmd = verbs_find(argv, &words, &family);
	if (cmd)
		return call_verb(cmd, argv + words);
	if (family)
		return family_alone(argv);
	return unknown_verb(*argv, NULL);
}

static int help_run(const struct call *c)
{
	int words;
	bool family;
	if (!c->n_words)
		return print_help(NULL);
	const struct cmd *cmd = verbs_find(c->words, &words, &family);
	if (cmd && c->n_words > words)
		return complain("unexpected ", c->words[words], "help ");
	if (cmd)
		return print_verb_help(cmd);
	if (family && !c->words[1])
		return print_help(c->words[0]);
	return family ? family_alone(c->words) : unknown_verb(c->words[0], NULL);
}

struct version_opts {
	bool json;
};

static const struct opt version_opts[] = {
	FLAG(AT(struct version_opts, json), "json", 0, "print JSON"),
	OPTS_END,
};

static int version_run(const struct call *c)
{
	const struct version_opts *o = c->opts;
	auto_buf struct buf b = BUF_INIT(256);
	if (o->json)
		buf_fmt(&b, "{\"version\":\"%s\",\"protocol\":%d}\n", SKEP_VERSION, PROTO_VERSION);
	else
		buf_fmt(&b, "skep %s\n", SKEP_VERSION);
	return out_flush(&b);
}

const struct cmd cmd_help = {
	.name = "help",
	.args = "[VERB]",
	.help = "show the verbs, or one of them",
	.max_words = 2,
	.tail = -1,
	.run = help_run,
};

const struct cmd cmd_version = {
	.name = "version",
	.args = "",
	.help = "print the version",
	.opts = version_opts,
	.opts_size = sizeof(struct version_opts),
	.tail = -1,
	.run = version_run,
};
