// SPDX-License-Identifier: Apache-2.0
// doctor: what this machine offers, what a cell would be made of, and whether the shipped attacks hold.
#include "base/home.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/proc.h"
#include "cli/attack.h"
#include "cli/build.h"
#include "cli/home.h"
#include "cli/out.h"
#include "cli/tls.h"
#include "cli/verbs.h"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define PROBE_MAX (4u << 20)

struct doctor_opts {
	bool plan, attack, tls, json;
};

static const struct opt doctor_opts[] = {
	FLAG(AT(struct doctor_opts, plan), "plan", 0, "print how a cell would be made, step by step"),
	FLAG(AT(struct doctor_opts, attack), "attack", 0, "run the containment tests in cells of this machine"),
	FLAG(AT(struct doctor_opts, tls), "tls", 0, "try which tools believe the gate's certificates in a cell"),
	FLAG(AT(struct doctor_opts, json), "json", 0, "print JSON"),
	OPTS_END,
};

// The stdout of `skep-cell FLAG [ARG]`.
static int ask_cell(const char *flag, char *more, struct buf *out, struct err *e)
{
	auto_free char *path = home_program("skep-cell", e), *arg = xstrdup(flag);
	char name[] = "skep-cell";
	char *argv[] = {name, arg, more, NULL};
	int status;
	if (!path || proc_run(path, argv, out, &status, e))
		return -1;
	if (!WIFEXITED(status) || (WEXITSTATUS(status) && !out->n))
		return err_set(e, ERR_SYSTEM, "skep-cell %s failed", flag);
	return 0;
}

static int print_checks(const json_t *checks, struct buf *b)
{
	struct table t = {.n_cols = 3};
	bool absent = false;
	size_t i;
	json_t *c;
	json_array_foreach(checks, i, c)
	{
		const char *fix = json_str(c, "fix"), *state = json_str(c, "state");
		auto_free char *detail = xasprintf("%s%s%s", json_str(c, "detail"), *fix ? "  fix: " : "", fix);
		absent |= !strcmp(state, "absent");
		table_add(&t, state);
		table_add(&t, json_str(c, "name"));
		table_add(&t, detail);
	}
	table_print(&t, b);
	buf_str(b, absent ? "No cell can start here until what is absent is there.\n" : "Cells can start here.\n");
	return absent;
}

static void print_in_force(const json_t *o, struct buf *b)
{
	struct table t = {.n_cols = 2};
	const char *key;
	json_t *v;
	if (!json_object_size(o))
		return;
	buf_str(b, "\nin force in a cell:\n");
	json_object_foreach((json_t *)o, key, v)
	{
		auto_buf struct buf text = BUF_INIT(1u << 20);
		if (json_is_string(v))
			buf_str(&text, json_string_value(v));
		else
			json_print(&text, v, 0);
		auto_free char *label = xasprintf("  %s", key);
		table_add(&t, label);
		table_add(&t, buf_cstr(&text));
	}
	table_print(&t, b);
}

static bool is_absent(const json_t *probe)
{
	size_t i;
	json_t *c;
	json_array_foreach(json_object_get(probe, "checks"), i,
			   c) if (!strcmp(json_str(c, "state"), "absent")) return true;
	return false;
}

// What runs may be older than what was installed since. It is only looked at: doctor starts none.
static void put_daemon(struct jsonw *w, const char *home)
{
	struct err e;
	auto_free char *sock = xasprintf("%s/run/skepd.sock", home);
	auto_fd int fd = home_connect(sock, &e);
	pid_t other = build_of_other(fd);
	auto_free char *detail = other ? xasprintf("process %d is of another build than this skep", (int)other)
				       : xstrdup(fd < 0 ? "none runs: the next skep starts one" : "runs, and is of this build");
	auto_free char *fix = other ? xasprintf("kill %d (what runs in sandboxes goes on)", (int)other) : NULL;
	jw_open(w, '{');
	jw_kstr(w, "name", "skepd");
	jw_kstr(w, "state", other ? "gap" : "ok");
	jw_kstr(w, "detail", detail);
	jw_kstr(w, "fix", fix);
	jw_close(w, '}');
}

static void put_value(struct jsonw *w, const json_t *v)
{
	auto_buf struct buf b = BUF_INIT(PROBE_MAX);
	json_print(&b, v, 0);
	jw_raw(w, buf_cstr(&b));
}

// What skep-cell found out of the machine, and what we know of skepd.
static json_t *ask(const char *home, struct err *e)
{
	auto_buf struct buf raw = BUF_INIT(PROBE_MAX), all = BUF_INIT(2 * PROBE_MAX);
	auto_free char *arg = xstrdup(home); // some checks are about where it lies
	auto_json json_t *j = ask_cell("--probe", arg, &raw, e) ? NULL : json_read(raw.p, raw.n, e);
	struct jsonw w = {.b = &all};
	size_t i;
	json_t *c;
	if (!j)
		return NULL;
	jw_open(&w, '{');
	jw_key(&w, "checks");
	jw_open(&w, '[');
	json_array_foreach(json_object_get(j, "checks"), i, c) put_value(&w, c);
	put_daemon(&w, home);
	jw_close(&w, ']');
	jw_key(&w, "in_force");
	put_value(&w, json_object_get(j, "in_force"));
	jw_close(&w, '}');
	return json_read(all.p, all.n, e);
}

static int probe(const struct call *c, bool as_json)
{
	struct err e;
	auto_buf struct buf b = BUF_INIT(4 * PROBE_MAX);
	auto_free char *home = home_dir(getenv("HOME"), &e);
	auto_json json_t *j = home ? ask(home, &e) : NULL;
	if (!j)
		return out_fail(c, &e);
	if (as_json)
		return out_json(j) || is_absent(j);
	int status = print_checks(json_object_get(j, "checks"), &b);
	print_in_force(json_object_get(j, "in_force"), &b);
	return out_flush(&b) || status;
}

static int plan(const struct call *c)
{
	struct err e;
	auto_buf struct buf raw = BUF_INIT(PROBE_MAX);
	return ask_cell("--plan", NULL, &raw, &e) ? out_fail(c, &e) : out_flush(&raw);
}

static int doctor_run(const struct call *c)
{
	const struct doctor_opts *o = c->opts;
	if (o->attack)
		return attack_run(c, o->json);
	if (o->tls)
		return tls_run(c, o->json);
	return o->plan ? plan(c) : probe(c, o->json);
}

const struct cmd cmd_doctor = {
	.name = "doctor",
	.args = "",
	.help = "check what this machine offers for isolation",
	.notes = "Exit status 1 when no cell can start here, or, with --attack, when a test was not contained, or, with --tls, when a tool does not believe.",
	.opts = doctor_opts,
	.opts_size = sizeof(struct doctor_opts),
	.tail = -1,
	.here = "it looks at the machine it runs on",
	.run = doctor_run,
};
