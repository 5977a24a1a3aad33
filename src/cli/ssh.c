// SPDX-License-Identifier: Apache-2.0
// ssh: OpenSSH's own client, with a ProxyCommand that leads to skep-ssh; and that ProxyCommand.
#include "base/home.h"
#include "base/mem.h"
#include "cli/api.h"
#include "cli/cell.h"
#include "cli/home.h"
#include "cli/out.h"
#include "cli/ssh_config.h"
#include "cli/ssh_far.h"
#include "cli/verbs.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ssh_opts {
	bool config, proxy, tty, quiet;
	const char *user;
	char **forwards;
};

#define SSH_AT(member) offsetof(struct ssh_opts, member)
static const struct opt ssh_opts[] = {
	FLAG(SSH_AT(config), "config", 0, "print a block for ~/.ssh/config, for all sandboxes or for these"),
	FLAG(SSH_AT(tty), "tty", 't', "give CMD a terminal"),
	VALUE(OPT_LIST, SSH_AT(forwards), "forward", 'L', "[ADDR:]PORT:localhost:PORT", "show a port of the sandbox here, while ssh runs"),
	FLAG(SSH_AT(quiet), "no-command", 'N', "run nothing: only forward"),
	VALUE(OPT_STR, SSH_AT(user), "user", 'u', "USER", "be USER inside"),
	FLAG(SSH_AT(proxy), "proxy", 0, "serve SSH on stdin and stdout (for a ProxyCommand)"),
	OPTS_END,
};

// --- the ProxyCommand ---

// As a command would: file operations of a sandbox that is stopped would else be its only life.
static int wake(struct api *a, const json_t *box, struct err *e)
{
	const char *state = json_str(box, "state");
	auto_free char *start = api_path("/v1/sandboxes", json_str(box, "id"), "start"),
		       *resume = api_path("/v1/sandboxes", json_str(box, "id"), "resume");
	if (!strcmp(state, "stopped"))
		return api_do(a, "POST", start, "{}", e);
	return strcmp(state, "paused") ? 0 : api_do(a, "POST", resume, "{}", e);
}

static json_t *find(struct api *a, const char *id, struct err *e)
{
	auto_free char *path = api_path("/v1/sandboxes", id, NULL);
	return api_json(a, "GET", path, NULL, e);
}

static int become_server(const char *dir, const json_t *box, struct err *e)
{
	char arg0[] = "skep-ssh", opt[] = "--keys", *none[] = {NULL};
	auto_free char *program = home_program("skep-ssh", e), *home = home_dir(getenv("HOME"), e);
	if (!program || !home)
		return -1;
	auto_free char *keys = xstrdup(dir), *sock = xasprintf("%s/run/skepd.sock", home), *id = xstrdup(json_str(box, "id"));
	char *argv[] = {arg0, opt, keys, sock, id, NULL};
	execve(program, argv, none);
	return err_sys(e, "%s", program);
}

static int serve(const char *host, struct err *e)
{
	auto_free char *dir = ssh_dir(e), *id = ssh_host_id(host);
	auto_api struct api a = API_CLOSED;
	if (!dir || api_open(&a, e))
		return -1;
	auto_json json_t *box = find(&a, id, e);
	if (!box || wake(&a, box, e))
		return -1;
	if (cell_is_far())
		return ssh_far_serve(&a, dir, json_str(box, "id"), e);
	api_close(&a);
	return become_server(dir, box, e);
}

// --- the block ---

static const char *name_of(const json_t *box)
{
	return *json_str(box, "name") ? json_str(box, "name") : json_str(box, "id");
}

static int print_config(char **ids, struct err *e)
{
	auto_buf struct buf hosts = BUF_INIT(64 << 10), out = BUF_INIT(128 << 10);
	auto_free char *dir = ssh_dir(e);
	auto_api struct api a = API_CLOSED;
	if (!dir || (*ids && api_open(&a, e)))
		return -1;
	for (; *ids; ids++) {
		auto_json json_t *box = find(&a, *ids, e);
		if (!box)
			return -1;
		auto_free char *host = ssh_host_of(name_of(box));
		buf_fmt(&hosts, "%s%s", hosts.n ? " " : "", host);
	}
	if (ssh_config_print(&out, dir, hosts.n ? buf_cstr(&hosts) : NULL, e))
		return -1;
	return out_flush(&out) ? err_set(e, ERR_SYSTEM, "stdout is gone") : 0;
}

// --- the client ---

static int become_client(const struct call *c, const char *config, const json_t *box, struct err *e)
{
	const struct ssh_opts *o = c->opts;
	auto_free char *host = ssh_host_of(json_str(box, "id")), *dir = xasprintf("SetEnv=SKEP_DIR=%s", json_str(box, "workspace_path"));
	char **argv = NULL;
	strv_add(&argv, "ssh");
	strv_add(&argv, "-F");
	strv_add(&argv, config);
	if (!strpbrk(dir, " \t\"\'\\")) { // which the option can not say
		strv_add(&argv, "-o");
		strv_add(&argv, dir);
	}
	if (o->tty)
		strv_add(&argv, "-t");
	if (o->quiet)
		strv_add(&argv, "-N");
	for (char **f = o->forwards; f && *f; f++) {
		strv_add(&argv, "-L");
		strv_add(&argv, *f);
	}
	if (o->user) {
		strv_add(&argv, "-l");
		strv_add(&argv, o->user);
	}
	strv_add(&argv, host);
	strv_add(&argv, "--");
	for (char **w = c->words + (c->n_before_dashes ? 1 : 0); c->n_words && *w; w++)
		strv_add(&argv, *w);
	execvp("ssh", argv);
	err_sys(e, "ssh");
	strv_free(argv);
	return e->sys == ENOENT ? err_set(e, ERR_UNAVAILABLE, "OpenSSH's client is not installed (Debian: apt-get install openssh-client)") : -1;
}

static int connect_to(const struct call *c, struct err *e)
{
	auto_free char *dir = ssh_dir(e), *config = dir ? ssh_config_write(dir, e) : NULL;
	auto_api struct api a = API_CLOSED;
	if (!config || api_open(&a, e))
		return -1;
	auto_free char *id = c->n_words && c->n_before_dashes ? ssh_host_id(c->words[0]) : api_default_id(&a, e);
	auto_json json_t *box = id ? find(&a, id, e) : NULL;
	if (!box)
		return -1;
	api_close(&a);
	return become_client(c, config, box, e);
}

static int ssh_run(const struct call *c)
{
	const struct ssh_opts *o = c->opts;
	struct err e;
	if (o->proxy && c->n_words != 1) {
		err_set(&e, ERR_INVALID, "--proxy takes one host or ID");
		return out_usage(c, &e);
	}
	if (o->proxy)
		return serve(c->words[0], &e) ? out_fail(c, &e) : 0;
	if (o->config)
		return print_config(c->words, &e) ? out_fail(c, &e) : 0;
	return connect_to(c, &e) ? out_fail(c, &e) : 0;
}

const struct cmd cmd_ssh = {
	.name = "ssh",
	.args = "[ID] [--] [CMD...]",
	.help = "open an SSH connection to a sandbox",
	.notes = "Runs OpenSSH's client, in the workspace. Without CMD: a shell. The words of CMD are joined by spaces and given to the shell inside, as\n"
		 "ssh does. `skep ssh --config >> ~/.ssh/config` makes every sandbox a host skep-ID for ssh, scp, sftp, rsync and editors.",
	.opts = ssh_opts,
	.opts_size = sizeof(struct ssh_opts),
	.max_words = -1,
	.tail = 1,
	.hint = HINT_SANDBOX,
	.run = ssh_run,
};
