// SPDX-License-Identifier: Apache-2.0
#include "cli/opt.h"

#include "base/mem.h"
#include "base/str.h"
#include "cli/words.h"
#include <assert.h>
#include <string.h>

#define HELP_LEFT 30 // columns for an option and its value

struct parser {
	const struct cmd *cmd;
	char **argv; // next word
	void *values;
	struct call *call;
	struct err *e;
	bool help;
};

static const struct opt *find_long(const struct cmd *cmd, struct str name)
{
	for (const struct opt *o = cmd->opts; o && o->name; o++)
		if (str_is(name, o->name))
			return o;
	return NULL;
}

static const struct opt *find_letter(const struct cmd *cmd, char letter)
{
	for (const struct opt *o = cmd->opts; o && o->name; o++)
		if (o->letter == letter)
			return o;
	return NULL;
}

static bool is_choice(const char *choices, const char *v)
{
	struct str rest = str_of(choices), part;
	while (str_next(&rest, '|', &part))
		if (str_is(part, v))
			return true;
	return false;
}

static int bad_value(const struct opt *o, const char *v, const char *want, struct err *e)
{
	return err_set(e, ERR_INVALID, "--%s %s: must be %s", o->name, v, want);
}

static int set_value(const struct opt *o, const char *v, void *values, struct err *e)
{
	void *at = (char *)values + o->offset;
	if (o->choices && !is_choice(o->choices, v))
		return bad_value(o, v, o->choices, e);
	switch (o->kind) {
	case OPT_FLAG:
		*(bool *)at = true;
		return 0;
	case OPT_STR:
		*(const char **)at = v;
		return 0;
	case OPT_LIST:
		strv_add(at, v);
		return 0;
	case OPT_COUNT:
		return str_to_u64(str_of(v), 0, INT64_MAX, at) ? bad_value(o, v, "a whole number", e) : 0;
	case OPT_SIZE:
		return str_to_size(v, at) ? bad_value(o, v, "a size such as 512m or 2g", e) : 0;
	case OPT_DURATION:
		return str_to_duration_ms(v, at) ? bad_value(o, v, "a time such as 30s, 5m or 2h", e) : 0;
	case OPT_MILLI:
		return str_to_milli(v, at) ? bad_value(o, v, "a number such as 2 or 1.5", e) : 0;
	case OPT_KINDS:
		break;
	}
	assert(!"option kind");
	return -1;
}

// Of another tool, where a sandbox is made: those words are about that.
static int unknown_here(struct parser *p, const char *word)
{
	const char *instead = find_long(p->cmd, str_of("mount")) ? words_option(word) : NULL;
	return err_set(p->e, ERR_INVALID, "unknown option %s%s%s", word, instead ? ": here it is " : "", instead ? instead : "");
}

static int unknown_long(struct parser *p, struct str name)
{
	char **names = NULL;
	auto_free char *word = xstrndup(name.p, name.n), *dashed = xasprintf("--%s", word);
	for (const struct opt *o = p->cmd->opts; o && o->name; o++)
		strv_add(&names, o->name);
	const char *near = words_option(dashed) ? NULL : str_nearest(word, names);
	if (near)
		err_set(p->e, ERR_INVALID, "unknown option --%s: did you mean --%s?", word, near);
	else
		unknown_here(p, dashed);
	strv_free(names);
	return -1;
}

// --name, --name=value, --name value
static int take_long(struct parser *p)
{
	const char *word = *p->argv++ + 2, *eq = strchr(word, '=');
	struct str name = {word, eq ? (size_t)(eq - word) : strlen(word)};
	const struct opt *o = find_long(p->cmd, name);
	if (!o && str_is(name, "help")) {
		p->help = true;
		return 0;
	}
	if (!o)
		return unknown_long(p, name);
	if (o->kind == OPT_FLAG)
		return eq ? err_set(p->e, ERR_INVALID, "--%s takes no value", o->name)
			  : set_value(o, NULL, p->values, p->e);
	if (!eq && !*p->argv)
		return err_set(p->e, ERR_INVALID, "--%s needs a value (%s)", o->name, o->arg);
	return set_value(o, eq ? eq + 1 : *p->argv++, p->values, p->e);
}

// -i, -it, -u NAME, -uNAME
static int take_letters(struct parser *p)
{
	for (const char *s = *p->argv++ + 1; *s; s++) {
		const struct opt *o = find_letter(p->cmd, *s);
		if (!o && *s == 'h') {
			p->help = true;
			return 0;
		}
		if (!o)
			return unknown_here(p, (char[]){'-', *s, 0});
		if (o->kind == OPT_FLAG) {
			if (set_value(o, NULL, p->values, p->e))
				return -1;
			continue;
		}
		const char *v = s[1] ? s + 1 : *p->argv ? *p->argv++ : NULL;
		return v ? set_value(o, v, p->values, p->e)
			 : err_set(p->e, ERR_INVALID, "-%c needs a value (%s)", *s, o->arg);
	}
	return 0;
}

static void add_words(struct call *c, char **argv)
{
	while (*argv)
		c->words[c->n_words++] = *argv++;
}

static int take_words(struct parser *p)
{
	struct call *c = p->call;
	while (*p->argv && !p->help) {
		const char *w = *p->argv;
		if (!strcmp(w, "--")) {
			c->n_before_dashes = c->n_words;
			add_words(c, p->argv + 1);
			return 0;
		}
		if (w[0] == '-' && w[1] == '-') {
			if (take_long(p))
				return -1;
		} else if (w[0] == '-' && w[1]) {
			if (take_letters(p))
				return -1;
		} else if (c->n_words == p->cmd->tail) {
			add_words(c, p->argv);
			return 0;
		} else {
			c->words[c->n_words++] = *p->argv++;
		}
	}
	return 0;
}

static void unset_numbers(const struct cmd *cmd, void *values)
{
	for (const struct opt *o = cmd->opts; o && o->name; o++)
		if (o->kind >= OPT_COUNT)
			*(uint64_t *)((char *)values + o->offset) = OPT_UNSET;
}

int opt_parse(const struct cmd *cmd, char **argv, void *values, struct call *out, bool *out_help, struct err *e)
{
	struct parser p = {.cmd = cmd, .argv = argv, .values = values, .call = out, .e = e};
	out->cmd = cmd;
	out->opts = values;
	out->n_words = 0;
	out->n_before_dashes = -1;
	unset_numbers(cmd, values);
	if (take_words(&p))
		return -1;
	out->words[out->n_words] = NULL;
	*out_help = p.help;
	if (p.help)
		return 0;
	if (out->n_words < cmd->min_words)
		return err_set(e, ERR_INVALID, "arguments are missing: %s", cmd->args);
	if (cmd->max_words >= 0 && out->n_words > cmd->max_words)
		return err_set(e, ERR_INVALID, "unexpected \"%s\"", out->words[cmd->max_words]);
	return 0;
}

void opt_values_done(const struct cmd *cmd, void *values)
{
	for (const struct opt *o = cmd->opts; o && o->name; o++)
		if (o->kind == OPT_LIST)
			strv_free(*(char ***)((char *)values + o->offset));
}

static void help_row(const struct opt *o, struct buf *out)
{
	auto_buf struct buf left = BUF_INIT(256);
	if (o->letter)
		buf_fmt(&left, "-%c, ", o->letter);
	else
		buf_str(&left, "    ");
	buf_fmt(&left, "--%s", o->name);
	if (o->kind != OPT_FLAG)
		buf_fmt(&left, " %s", o->choices ? o->choices : o->arg);
	// what is too wide for its column gets a line of its own, so that the texts stay in theirs
	if (left.n > HELP_LEFT)
		buf_fmt(out, "  %s\n  %-*s  %s\n", buf_cstr(&left), HELP_LEFT, "", o->help);
	else
		buf_fmt(out, "  %-*s  %s\n", HELP_LEFT, buf_cstr(&left), o->help);
}

void opt_help(const struct cmd *cmd, struct buf *out)
{
	buf_fmt(out, "usage: skep %s%s%s%s\n\n%s\n", cmd->name, cmd->opts ? " [OPTIONS]" : "", *cmd->args ? " " : "",
		cmd->args, cmd->help);
	if (cmd->notes)
		buf_fmt(out, "\n%s\n", cmd->notes);
	if (cmd->opts)
		buf_str(out, "\noptions:\n");
	for (const struct opt *o = cmd->opts; o && o->name; o++)
		help_row(o, out);
}
