// SPDX-License-Identifier: Apache-2.0
// completion: scripts for three shells, made from the same tables that parse and help. Ids are asked from a
// daemon that runs; pressing TAB starts none.
#include "base/mem.h"
#include "base/str.h"
#include "cli/out.h"
#include "cli/verbs.h"
#include <string.h>

#define SCRIPT_MAX (1u << 20)

// The command that lists what a hint stands for; NULL for files, commands and nothing.
static const char *lister(enum opt_hint hint)
{
	switch (hint) {
	case HINT_SANDBOX:
		return "SKEP_NO_START=1 skep ps --names 2>/dev/null";
	case HINT_EXEC:
		return "SKEP_NO_START=1 skep ps --execs -q 2>/dev/null";
	case HINT_IMAGE:
		return "SKEP_NO_START=1 skep image ls -q 2>/dev/null";
	case HINT_SHELL:
		return "echo bash zsh fish";
	case HINT_SECRET:
		return "SKEP_NO_START=1 skep secret ls -q 2>/dev/null";
	case HINT_PRESET:
		return "echo none registries git llm open";
	case HINT_PLACE:
		return "echo bearer basic header: set: query: git file ssh";
	case HINT_SNAPSHOT:
		return "SKEP_NO_START=1 skep snapshots --all -q 2>/dev/null";
	case HINT_VOLUME:
		return "SKEP_NO_START=1 skep volume ls -q 2>/dev/null";
	case HINT_NONE:
	case HINT_FILE:
	case HINT_DIR:
	case HINT_COMMAND:
	case HINTS:
		break;
	}
	return NULL;
}

// The first word of a verb's name, and the second of a family member's or NULL.
static struct str first_word(const struct cmd *c, const char **out_second)
{
	const char *space = strchr(c->name, ' ');
	*out_second = space ? space + 1 : NULL;
	return (struct str){c->name, space ? (size_t)(space - c->name) : strlen(c->name)};
}

static bool is_first_of_name(const struct cmd *const *v)
{
	const char *second;
	struct str w = first_word(*v, &second), before;
	if (v == verbs)
		return true;
	before = first_word(v[-1], &second); // families stand together
	return before.n != w.n || memcmp(before.p, w.p, w.n);
}

// Members of a family of which there is also a plain verb, as of snapshot: what follows that may be a member's name.
static bool is_of_verb(const struct cmd *const *v)
{
	const char *second;
	struct str w = first_word(*v, &second), before;
	if (v == verbs)
		return false;
	before = first_word(v[-1], &second);
	return before.n == w.n && !memcmp(before.p, w.p, w.n) && !second;
}

// Text in single quotes for any of the three shells; a quote itself becomes a typographic one, and what zsh
// takes for syntax is escaped for it.
static void quoted(struct buf *b, const char *s, bool zsh)
{
	for (; *s; s++) {
		if (*s == '\'')
			buf_str(b, "\xe2\x80\x99");
		else if (zsh && strchr("[]:\\", *s))
			buf_fmt(b, "\\%c", *s);
		else
			buf_byte(b, *s);
	}
}

// --- bash ---

static void bash_words(struct buf *b, enum opt_hint hint, const char *choices)
{
	if (choices) {
		auto_free char *list = xstrdup(choices);
		for (char *p = list; *p; p++)
			*p = *p == '|' ? ' ' : *p;
		buf_fmt(b, "COMPREPLY=($(compgen -W '%s' -- \"$cur\"))", list);
	} else if (lister(hint)) {
		buf_fmt(b, "COMPREPLY=($(compgen -W \"$(%s)\" -- \"$cur\"))", lister(hint));
	} else if (hint == HINT_FILE || hint == HINT_DIR || hint == HINT_COMMAND) {
		buf_fmt(b, "COMPREPLY=($(compgen -%c -- \"$cur\"))",
			hint == HINT_FILE  ? 'f'
			: hint == HINT_DIR ? 'd'
					   : 'c');
	} else {
		buf_str(b, "COMPREPLY=()");
	}
}

static void bash_verb(struct buf *b, const struct cmd *c)
{
	buf_fmt(b, "\t'%s')\n\t\tcase $prev in\n", c->name);
	for (const struct opt *o = c->opts; o && o->name; o++) {
		if (o->kind == OPT_FLAG)
			continue;
		buf_fmt(b, "\t\t--%s", o->name);
		if (o->letter)
			buf_fmt(b, "|-%c", o->letter);
		buf_str(b, ") ");
		bash_words(b, o->hint, o->choices);
		buf_str(b, "; return ;;\n");
	}
	buf_str(b, "\t\tesac\n\t\topts='--help");
	for (const struct opt *o = c->opts; o && o->name; o++)
		buf_fmt(b, " --%s", o->name);
	buf_str(b, "'\n\t\t[[ $cur == -* ]] || ");
	bash_words(b, c->hint, NULL);
	buf_str(b, "\n\t\t;;\n");
}

static void all_names(struct buf *b, const char *family)
{
	for (const struct cmd *const *v = verbs; *v; v++) {
		const char *second;
		struct str w = first_word(*v, &second);
		if (family ? second && str_is(w, family) : is_first_of_name(v))
			buf_fmt(b, " %.*s", family ? (int)strlen(second) : (int)w.n, family ? second : w.p);
	}
}

static void bash_script(struct buf *b)
{
	buf_str(b,
		"# bash completion for skep, made by: skep completion bash\n"
		"_skep() {\n"
		"\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]} opts=\n"
		"\tCOMPREPLY=()\n"
		"\tif ((COMP_CWORD == 1)); then\n\t\tCOMPREPLY=($(compgen -W '--help --version");
	all_names(b, NULL);
	buf_str(b, "' -- \"$cur\"))\n\t\treturn\n\tfi\n\tcase $verb in\n");
	for (const struct cmd *const *v = verbs; *v; v++) {
		const char *second;
		struct str w = first_word(*v, &second);
		if (second && is_of_verb(v))
			buf_fmt(b, "\t%.*s) [[ ${COMP_WORDS[2]} != %s || $COMP_CWORD == 2 ]] || verb+=' %s' ;;\n", (int)w.n, w.p, second, second);
		if (!second || !is_first_of_name(v))
			continue;
		auto_free char *family = xstrndup(w.p, w.n);
		buf_fmt(b, "\t%s)\n\t\tif ((COMP_CWORD == 2)); then\n\t\t\tCOMPREPLY=($(compgen -W '", family);
		all_names(b, family);
		buf_str(b, "' -- \"$cur\"))\n\t\t\treturn\n\t\tfi\n\t\tverb+=\" ${COMP_WORDS[2]}\" ;;\n");
	}
	buf_str(b, "\tesac\n\tcase $verb in\n");
	for (const struct cmd *const *v = verbs; *v; v++)
		bash_verb(b, *v);
	buf_str(b, "\tesac\n\t[[ $cur == -* ]] && COMPREPLY=($(compgen -W \"$opts\" -- \"$cur\"))\n}\n"
		   "complete -F _skep skep\n");
}

// --- zsh ---

static void zsh_action(struct buf *b, enum opt_hint hint, const char *choices)
{
	if (choices) {
		buf_byte(b, '(');
		for (const char *p = choices; *p; p++)
			buf_byte(b, *p == '|' ? ' ' : *p);
		buf_byte(b, ')');
	} else if (lister(hint)) {
		buf_fmt(b, "{compadd -- $(%s)}", lister(hint));
	} else if (hint == HINT_FILE || hint == HINT_DIR) {
		buf_str(b, hint == HINT_FILE ? "_files" : "_files -/");
	} else if (hint == HINT_COMMAND) {
		buf_str(b, "_command_names -e");
	}
}

static void zsh_option(struct buf *b, const struct opt *o, bool letter)
{
	bool flag = o->kind == OPT_FLAG;
	buf_fmt(b, " \\\n\t\t\t'%s", o->kind == OPT_LIST ? "*" : "");
	if (letter)
		buf_fmt(b, "-%c%s[", o->letter, flag ? "" : "+");
	else
		buf_fmt(b, "--%s%s[", o->name, flag ? "" : "=");
	quoted(b, o->help, true);
	buf_byte(b, ']');
	if (!flag) {
		buf_byte(b, ':');
		quoted(b, o->arg, true);
		buf_byte(b, ':');
		zsh_action(b, o->hint, o->choices);
	}
	buf_byte(b, '\'');
}

static void zsh_verb(struct buf *b, const struct cmd *c)
{
	buf_fmt(b, "\t'%s')\n\t\t_arguments -s -S '--help[show help]'", c->name);
	for (const struct opt *o = c->opts; o && o->name; o++) {
		zsh_option(b, o, false);
		if (o->letter)
			zsh_option(b, o, true);
	}
	buf_str(b, " \\\n\t\t\t'*:");
	quoted(b, *c->args ? c->args : "nothing more", true);
	buf_byte(b, ':');
	zsh_action(b, c->hint, NULL);
	buf_str(b, "' ;;\n");
}

static void zsh_script(struct buf *b)
{
	buf_str(b, "#compdef skep\n# zsh completion for skep, made by: skep completion zsh\n"
		   "_skep() {\n\tlocal verb\n\tlocal -a names\n"
		   "\tif (( CURRENT == 2 )); then\n\t\tnames=(");
	for (const struct cmd *const *v = verbs; *v; v++) {
		const char *second;
		struct str w = first_word(*v, &second);
		if (!is_first_of_name(v))
			continue;
		buf_fmt(b, "\n\t\t\t'%.*s:", (int)w.n, w.p);
		quoted(b, (*v)->help, true);
		buf_byte(b, '\'');
	}
	buf_str(b, ")\n\t\t_describe verb names\n\t\treturn\n\tfi\n\tverb=${words[2]}\n\tcase $verb in\n");
	for (const struct cmd *const *v = verbs; *v; v++) {
		const char *second;
		struct str w = first_word(*v, &second);
		if (second && is_of_verb(v))
			buf_fmt(b, "\t%.*s)\n\t\tif [[ ${words[3]} == %s ]] && (( CURRENT > 3 )); then\n\t\t\tverb+=' %s'\n\t\t\tshift words\n\t\t\t(( CURRENT-- ))\n\t\tfi ;;\n",
				(int)w.n, w.p, second, second);
		if (!second || !is_first_of_name(v))
			continue;
		auto_free char *family = xstrndup(w.p, w.n);
		buf_fmt(b, "\t%s)\n\t\tif (( CURRENT == 3 )); then\n\t\t\tcompadd --", family);
		all_names(b, family);
		buf_str(b, "\n\t\t\treturn\n\t\tfi\n\t\tverb+=\" ${words[3]}\"\n"
			   "\t\tshift words\n\t\t(( CURRENT-- )) ;;\n");
	}
	buf_str(b, "\tesac\n\tshift words\n\t(( CURRENT-- ))\n\tcase $verb in\n");
	for (const struct cmd *const *v = verbs; *v; v++)
		zsh_verb(b, *v);
	buf_str(b,
		"\tesac\n}\nif [[ ${funcstack[1]} == _skep ]]; then\n\t_skep \"$@\"\nelse\n\tcompdef _skep skep\nfi\n");
}

// --- fish ---

static void fish_values(struct buf *b, enum opt_hint hint, const char *choices)
{
	if (choices) {
		buf_str(b, " -x -a '");
		for (const char *p = choices; *p; p++)
			buf_byte(b, *p == '|' ? ' ' : *p);
		buf_byte(b, '\'');
	} else if (lister(hint) && str_has_prefix(lister(hint), "echo ")) {
		buf_fmt(b, " -x -a '%s'", lister(hint) + strlen("echo "));
	} else if (lister(hint)) {
		buf_fmt(b, " -x -a '(%s)'", lister(hint));
	} else if (hint == HINT_DIR) {
		buf_str(b, " -x -a '(__fish_complete_directories)'");
	} else if (hint == HINT_COMMAND) {
		buf_str(b, " -x -a '(__fish_complete_command)'");
	} else {
		buf_str(b, hint == HINT_FILE ? " -r -F" : " -x");
	}
}

static void fish_verb(struct buf *b, const struct cmd *const *v)
{
	const struct cmd *c = *v;
	const char *second;
	struct str w = first_word(c, &second);
	auto_free char *first = xstrndup(w.p, w.n);
	auto_free char *seen =
		second ? xasprintf("__fish_seen_subcommand_from %s; and __fish_seen_subcommand_from %s", first, second)
		       : xasprintf("__fish_seen_subcommand_from %s", first);
	if (is_first_of_name(v)) {
		buf_fmt(b, "complete -c skep -n __fish_use_subcommand -a %s -d '", first);
		quoted(b, c->help, false);
		buf_str(b, "'\n");
	}
	if (second) {
		buf_fmt(b, "complete -c skep -n '__fish_seen_subcommand_from %s' -a %s -d '", first, second);
		quoted(b, c->help, false);
		buf_str(b, "'\n");
	}
	for (const struct opt *o = c->opts; o && o->name; o++) {
		buf_fmt(b, "complete -c skep -n '%s' -l %s", seen, o->name);
		if (o->letter)
			buf_fmt(b, " -s %c", o->letter);
		if (o->kind != OPT_FLAG)
			fish_values(b, o->hint, o->choices);
		buf_str(b, " -d '");
		quoted(b, o->help, false);
		buf_str(b, "'\n");
	}
	if (c->hint != HINT_NONE) {
		buf_fmt(b, "complete -c skep -n '%s'", seen);
		fish_values(b, c->hint, NULL);
		buf_byte(b, '\n');
	}
}

static void fish_script(struct buf *b)
{
	buf_str(b, "# fish completion for skep, made by: skep completion fish\ncomplete -c skep -f\n");
	for (const struct cmd *const *v = verbs; *v; v++)
		fish_verb(b, v);
}

static int completion_run(const struct call *c)
{
	static const struct {
		const char *name;
		void (*make)(struct buf *b);
	} shells[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};
	struct err e;
	auto_buf struct buf b = BUF_INIT(SCRIPT_MAX);
	for (size_t i = 0; i < countof(shells); i++)
		if (!strcmp(c->words[0], shells[i].name)) {
			shells[i].make(&b);
			return out_flush(&b);
		}
	err_set(&e, ERR_INVALID, "%s: bash, zsh and fish are known", c->words[0]);
	return out_usage(c, &e);
}

const struct cmd cmd_completion = {
	.name = "completion",
	.args = "bash|zsh|fish",
	.help = "print a completion script for a shell",
	.min_words = 1,
	.max_words = 1,
	.tail = -1,
	.hint = HINT_SHELL,
	.run = completion_run,
};
