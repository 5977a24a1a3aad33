// SPDX-License-Identifier: Apache-2.0
// The option table: one row per option drives parsing, --help and shell completion.
#pragma once
#include "base/buf.h"

enum opt_kind {
	OPT_FLAG, // bool
	OPT_STR,  // const char *, borrowed from argv
	OPT_LIST, // char **: may be given several times; owned by the values
	// numbers are OPT_UNSET when not given: 0 has a meaning
	OPT_COUNT,    // uint64_t, a plain number
	OPT_SIZE,     // uint64_t, bytes: 512m, 1.5g
	OPT_DURATION, // uint64_t, ms: 500ms, 10s, 5m
	OPT_MILLI,    // uint64_t, thousandths: 1.5
	OPT_KINDS,
};

#define OPT_UNSET UINT64_MAX

// What a word or an option's value may be, for completion.
enum opt_hint { HINT_NONE, HINT_FILE, HINT_DIR, HINT_SANDBOX, HINT_EXEC, HINT_IMAGE, HINT_COMMAND, HINT_SHELL, HINT_SECRET,
		HINT_PRESET, HINT_PLACE, HINT_SNAPSHOT, HINT_VOLUME, HINTS };

struct opt {
	const char *name; // long, without dashes; NULL ends the table
	char letter;	  // 0 = none
	enum opt_kind kind;
	size_t offset;	     // of the value in the verb's struct
	const char *arg;     // name of the value in help
	const char *help;    // one line
	const char *choices; // "a|b": nothing else is taken
	enum opt_hint hint;
};

// One verb. Its file exports one of these; cli/verbs.c lists them.
struct cmd;
struct call {
	const struct cmd *cmd;
	const void *opts; // the verb's values
	char **words;	  // NULL-terminated, borrowed
	int n_words;
	int n_before_dashes; // words that stood before `--`; -1 without one
};

struct cmd {
	const char *name;  // "run"; two words for a family: "image ls"
	const char *args;  // synopsis behind the options
	const char *help;  // one line
	const char *notes; // more lines for --help, or NULL
	const struct opt *opts;
	size_t opts_size;
	int min_words, max_words; // max -1 = any
	int tail;		  // -1, or: after this many words the next plain word starts a command, options and all
	enum opt_hint hint;	  // of the words
	const char *here;	  // not NULL: refused with the SKEP_HOST of another machine, and why
	int (*run)(const struct call *c); // exit status
};

// Rows of a table: at = offset of the value, n = long name, l = letter or 0, a = name of the value, h = help.
#define FLAG(at, n, l, h)                                                         \
	{                                                                         \
		.name = n, .letter = l, .kind = OPT_FLAG, .offset = at, .help = h \
	}
#define VALUE(k, at, n, l, a, h)                                                     \
	{                                                                            \
		.name = n, .letter = l, .kind = k, .offset = at, .arg = a, .help = h \
	}
#define HINTED(k, what, at, n, l, a, h)                                                            \
	{                                                                                          \
		.name = n, .letter = l, .kind = k, .offset = at, .arg = a, .help = h, .hint = what \
	}
#define CHOICE(at, n, l, a, h, list)                                                                        \
	{                                                                                                   \
		.name = n, .letter = l, .kind = OPT_STR, .offset = at, .arg = a, .help = h, .choices = list \
	}
#define OPTS_END             \
	{                    \
		.name = NULL \
	}
#define AT(type, member) offsetof(type, member)

// Parses argv (behind the verb's name). values: opts_size zeroed bytes. words: room for argc + 1.
// INVALID names the offending word. *out_help is set when --help or -h was met first.
int opt_parse(const struct cmd *cmd, char **argv, void *values, struct call *out, bool *out_help,
	      struct err *e) MUST_USE;
void opt_values_done(const struct cmd *cmd, void *values);
void opt_help(const struct cmd *cmd, struct buf *out);
