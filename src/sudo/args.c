// SPDX-License-Identifier: Apache-2.0
#include "sudo/args.h"

#include "base/mem.h"
#include "base/str.h"
#include <string.h>

const char sudo_usage[] =
	"usage: sudo [-EHbiknSs] [-D DIR] [-u USER] [--preserve-env=LIST] [NAME=VALUE ...] [--] [COMMAND [ARG ...]]\n"
	"       sudo -l | -v | -k | -K | -V | -h\n"
	"Runs a command as the root of this sandbox, or as another user of it. No password is asked for.\n";

struct option {
	char letter;
	const char *name;
	bool takes;
	void (*set)(struct sudo_args *a, const char *value); // NULL = not served
};

static void nothing(struct sudo_args *a, const char *value)
{
	(void)a, (void)value;
}

static void set_user(struct sudo_args *a, const char *value)
{
	a->user = *value == '#' ? value + 1 : value;
}

static void set_chdir(struct sudo_args *a, const char *value)
{
	a->chdir = value;
}

static void set_login(struct sudo_args *a, const char *value)
{
	(void)value;
	a->login = true;
}

static void set_shell(struct sudo_args *a, const char *value)
{
	(void)value;
	a->shell = true;
}

static void set_keep(struct sudo_args *a, const char *value)
{
	struct str rest = str_of(value ? value : ""), part;
	a->keep_all |= !value;
	while (str_next(&rest, ',', &part)) {
		auto_free char *name = xstrndup(part.p, part.n);
		strv_add(&a->keep, name);
	}
}

static void set_home(struct sudo_args *a, const char *value)
{
	(void)value;
	a->set_home = true;
}

static void set_background(struct sudo_args *a, const char *value)
{
	(void)value;
	a->background = true;
}

static void set_list(struct sudo_args *a, const char *value)
{
	(void)value;
	a->what = SUDO_LIST;
}

static void set_nothing(struct sudo_args *a, const char *value)
{
	(void)value;
	a->what = SUDO_NOTHING;
}

static void set_version(struct sudo_args *a, const char *value)
{
	(void)value;
	a->what = SUDO_VERSION;
}

static void set_help(struct sudo_args *a, const char *value)
{
	(void)value;
	a->what = SUDO_HELP;
}

static const struct option options[] = {
	{'A', "askpass", false, nothing},	 {'b', "background", false, set_background}, {'B', "bell", false, nothing},
	{'C', "close-from", true, nothing},	 {'D', "chdir", true, set_chdir},	     {'E', "preserve-env", false, set_keep},
	{'e', "edit", false, NULL},		 {'g', "group", true, NULL},		     {'H', "set-home", false, set_home},
	{'h', "help", false, set_help},		 {'i', "login", false, set_login},	     {'K', "remove-timestamp", false, set_nothing},
	{'k', "reset-timestamp", false, set_nothing}, {'l', "list", false, set_list},	     {'n', "non-interactive", false, nothing},
	{'N', "no-update", false, nothing},	 {'P', "preserve-groups", false, nothing},   {'p', "prompt", true, nothing},
	{'R', "chroot", true, NULL},		 {'r', "role", true, NULL},		     {'S', "stdin", false, nothing},
	{'s', "shell", false, set_shell},	 {'t', "type", true, NULL},		     {'T', "command-timeout", true, NULL},
	{'U', "other-user", true, nothing},	 {'u', "user", true, set_user},		     {'V', "version", false, set_version},
	{'v', "validate", false, set_nothing},
};

static int apply(const struct option *o, struct sudo_args *a, const char *value, struct err *e)
{
	if (!o->set)
		return err_set(e, ERR_UNSUPPORTED, "-%c (--%s) does not work in a sandbox", o->letter, o->name);
	o->set(a, value);
	return 0;
}

// --name, --name=value, --name value. Returns how many words it took, or -1.
static int long_option(char **argv, struct sudo_args *a, struct err *e)
{
	const char *name = argv[0] + 2, *equals = strchr(name, '=');
	size_t n = equals ? (size_t)(equals - name) : strlen(name);
	for (size_t i = 0; i < countof(options); i++) {
		const struct option *o = &options[i];
		if (strncmp(o->name, name, n) || o->name[n])
			continue;
		if (equals && !o->takes && o->letter != 'E')
			return err_set(e, ERR_INVALID, "--%s takes no value", o->name);
		const char *value = equals ? equals + 1 : o->takes ? argv[1] : NULL;
		if (o->takes && !value)
			return err_set(e, ERR_INVALID, "--%s needs a value", o->name);
		return apply(o, a, value, e) ? -1 : !equals && o->takes ? 2 : 1;
	}
	return err_set(e, ERR_INVALID, "unrecognized option '%s'", argv[0]);
}

// -nE, -uUSER, -u USER.
static int short_options(char **argv, struct sudo_args *a, struct err *e)
{
	for (const char *c = argv[0] + 1; *c; c++) {
		size_t i = 0;
		while (i < countof(options) && options[i].letter != *c)
			i++;
		if (i == countof(options))
			return err_set(e, ERR_INVALID, "invalid option -- '%c'", *c);
		const char *value = !options[i].takes ? NULL : c[1] ? c + 1 : argv[1];
		if (options[i].takes && !value)
			return err_set(e, ERR_INVALID, "option requires an argument -- '%c'", *c);
		if (apply(&options[i], a, value, e))
			return -1;
		if (value)
			return c[1] ? 1 : 2;
	}
	return 1;
}

static bool is_setting(const char *word)
{
	const char *equals = strchr(word, '=');
	return equals && equals != word && !memchr(word, '/', (size_t)(equals - word));
}

int sudo_args_parse(char **argv, struct sudo_args *out, struct err *e)
{
	struct sudo_args a = {.user = "root"};
	int took = 1;
	for (argv++; *argv && took > 0; argv += took) {
		took = 1;
		if (!strcmp(*argv, "--")) {
			argv++;
			break;
		}
		if (str_has_prefix(*argv, "--"))
			took = long_option(argv, &a, e);
		else if (**argv == '-' && argv[0][1])
			took = short_options(argv, &a, e);
		else if (is_setting(*argv))
			strv_add(&a.set, *argv);
		else
			break;
		if (took < 0) {
			sudo_args_done(&a);
			return -1;
		}
	}
	a.command = argv;
	if (a.what == SUDO_NOTHING && *argv) // -k before a command: it would ask for a password, had it one
		a.what = SUDO_RUN;
	if (a.what == SUDO_RUN && !*argv && !a.login && !a.shell) {
		sudo_args_done(&a);
		return err_set(e, ERR_INVALID, "which command? (sudo -i or -s for a shell)");
	}
	*out = a;
	return 0;
}

void sudo_args_done(struct sudo_args *a)
{
	strv_free(a->keep);
	strv_free(a->set);
	*a = (struct sudo_args){0};
}
