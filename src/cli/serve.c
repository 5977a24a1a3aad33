// SPDX-License-Identifier: Apache-2.0
// serve: makes skepd listen on TCP, as long as this runs. Each listener is held by a request that is answered only when
// it ends: skepd sees us go whichever way we do.
#include "base/fs.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "cli/api.h"
#include "cli/home.h"
#include "cli/out.h"
#include "cli/verbs.h"
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define LISTENERS 16
#define END_MS 5000
#define DEFAULT_ADDRESS "127.0.0.1:7537"

struct serve_opts {
	char **listen, **public_url;
	bool insecure, detach, json, stop;
};

static const struct opt serve_opts[] = {
	VALUE(OPT_LIST, AT(struct serve_opts, listen), "listen", 0, "ADDR:PORT", "where (default: " DEFAULT_ADDRESS "; may be given several times)"),
	VALUE(OPT_LIST, AT(struct serve_opts, public_url), "public-url", 0, "URL", "a name it is reached under, such as a reverse proxy's"),
	FLAG(AT(struct serve_opts, insecure), "insecure-loopback", 0, "no token is needed; loopback addresses only"),
	FLAG(AT(struct serve_opts, detach), "detach", 'd', "skepd goes on listening; come back at once"),
	FLAG(AT(struct serve_opts, stop), "stop", 0, "end all that listens"),
	FLAG(AT(struct serve_opts, json), "json", 0, "print JSON"),
	OPTS_END,
};

static json_t *ask(struct api *a, const struct serve_opts *o, const char *address, struct err *e)
{
	auto_buf struct buf body = BUF_INIT(64 << 10);
	struct jsonw w = {.b = &body};
	jw_open(&w, '{');
	jw_kstr(&w, "address", address);
	jw_kbool(&w, "insecure", o->insecure);
	jw_kbool(&w, "hold", !o->detach);
	if (o->public_url)
		jw_kstrv(&w, "public_urls", o->public_url);
	jw_close(&w, '}');
	return api_json(a, "POST", "/v1/listeners", buf_cstr(&body), e);
}

static void tell(const struct serve_opts *o, const json_t *l)
{
	auto_buf struct buf b = BUF_INIT(64 << 10);
	if (o->json)
		json_print(&b, l, 0);
	else
		buf_fmt(&b, "listening on http://%s", json_str(l, "address"));
	if (!o->json && o->public_url)
		buf_fmt(&b, ", to be reached as %s", json_str(l, "url"));
	buf_str(&b, "\n");
	out_flush(&b);
}

// Sends the holding request and leaves its answer to come.
static int hold(const char *id, int *out_fd, struct err *e)
{
	auto_free char *head = xasprintf("GET /v1/listeners/%s/hold HTTP/1.1\r\nHost: skep\r\n\r\n", id);
	auto_fd int fd = home_connect_skepd(e);
	if (fd < 0 || fs_write_all(fd, head, strlen(head), e))
		return -1;
	*out_fd = take_fd(&fd);
	return 0;
}

// Before anybody is told that we listen: from then on a ^C is an orderly end.
static void keep_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGHUP);
	sigprocmask(SIG_BLOCK, set, NULL);
}

// Until somebody stops us, or skepd does.
static int wait_end(const struct call *c, struct pollfd *p, nfds_t n)
{
	struct err e;
	sigset_t set;
	keep_signals(&set);
	auto_fd int signals = signalfd(-1, &set, SFD_CLOEXEC);
	p[n] = (struct pollfd){.fd = signals, .events = POLLIN};
	while (poll(p, n + 1, -1) <= 0)
		;
	if (p[n].revents) {
		for (nfds_t i = 0; i < n; i++) // it answers when nobody is let in any more
			if (!shutdown(p[i].fd, SHUT_WR))
				poll(&p[i], 1, END_MS);
		return 0;
	}
	err_set(&e, ERR_UNAVAILABLE, "skepd has stopped listening: it ended, or skep serve --stop was called");
	return out_fail(c, &e);
}

static int stop_all(const struct call *c, struct api *a)
{
	struct err e;
	size_t i;
	json_t *l;
	auto_json json_t *j = api_json(a, "GET", "/v1/listeners", NULL, &e);
	if (!j)
		return out_fail(c, &e);
	json_array_foreach(json_object_get(j, "listeners"), i, l)
	{
		auto_free char *path = api_path("/v1/listeners", json_str(l, "id"), NULL);
		if (api_do(a, "DELETE", path, NULL, &e))
			return out_fail(c, &e);
	}
	return 0;
}

static int serve_run(const struct call *c)
{
	const struct serve_opts *o = c->opts;
	static char address[] = DEFAULT_ADDRESS;
	char *fallback[] = {address, NULL}, **list = o->listen ? o->listen : fallback;
	struct pollfd held[LISTENERS + 1];
	nfds_t n = 0;
	struct err e;
	sigset_t set;
	auto_api struct api a = API_CLOSED;
	if (strv_len(list) > LISTENERS) {
		err_set(&e, ERR_INVALID, "at most %d addresses", LISTENERS);
		return out_usage(c, &e);
	}
	if (api_open(&a, &e))
		return out_fail(c, &e);
	if (o->stop)
		return stop_all(c, &a);
	for (; *list; list++) {
		auto_json json_t *l = ask(&a, o, *list, &e);
		held[n] = (struct pollfd){.fd = -1, .events = POLLIN};
		if (!l || (!o->detach && hold(json_str(l, "id"), &held[n++].fd, &e)))
			return out_fail(c, &e);
		if (!o->detach)
			keep_signals(&set);
		tell(o, l);
	}
	return o->detach ? 0 : wait_end(c, held, n);
}

const struct cmd cmd_serve = {
	.name = "serve",
	.args = "",
	.help = "listen on TCP for the API, until ^C",
	.notes = "Callers show a token (skep token new). TLS is for a reverse proxy: docs/api.md has one for nginx and one for Caddy.\n"
		 "To listen whenever skepd runs, put `listen: [ADDR:PORT]` into config.yaml.",
	.opts = serve_opts,
	.opts_size = sizeof(struct serve_opts),
	.tail = -1,
	.here = "it is for the skepd of this machine",
	.run = serve_run,
};
