// SPDX-License-Identifier: Apache-2.0
// One sandbox of several: its execs, its test, its changes.
#include "cli/compare.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cli/out.h"
#include "cli/request.h"
#include "cli/review.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile sig_atomic_t stopped;

static void on_signal(int sig)
{
	(void)sig;
	stopped = 1;
}

bool compare_stopped(void)
{
	return stopped;
}

void compare_catch(void)
{
	struct sigaction s = {.sa_handler = on_signal};
	sigaction(SIGINT, &s, NULL);
	sigaction(SIGTERM, &s, NULL);
	sigaction(SIGHUP, &s, NULL);
}

void compare_pause(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 100 * 1000 * 1000}, NULL);
}

void job_done(struct job *j)
{
	free(j->exec);
	*j = (struct job){0};
}

void contender_done(struct contender *c)
{
	free(c->id);
	free(c->name);
	free(c->fork);
	job_done(&c->run);
	job_done(&c->test);
	json_decref(c->diff);
	*c = (struct contender){0};
}

const char *contender_name(const struct contender *c)
{
	return c->name && *c->name ? c->name : c->id;
}

int job_start(struct api *a, const char *sandbox, char *const *argv, char *const *env, struct job *out, struct err *e)
{
	auto_buf struct buf body = BUF_INIT(HTTP_BODY_MAX);
	struct exec_request x = {.argv = argv, .env = env, .detach = true, .timeout = OPT_UNSET};
	auto_free char *path = api_path("/v1/sandboxes", sandbox, "execs");
	if (request_exec(&body, &x, e))
		return -1;
	auto_json json_t *j = api_json(a, "POST", path, buf_cstr(&body), e);
	if (!j)
		return -1;
	*out = (struct job){.exec = xstrdup(json_str(json_object_get(j, "exec"), "id")), .started = clock_ms()};
	return 0;
}

int job_look(struct api *a, struct job *j, struct err *e)
{
	auto_free char *path = api_path("/v1/execs", j->exec, NULL);
	if (j->ended)
		return 0;
	auto_json json_t *row = api_json(a, "GET", path, NULL, e);
	if (!row)
		return -1;
	j->ms = clock_ms() - j->started;
	if (!strcmp(json_str(row, "state"), "running"))
		return 0;
	j->ended = true;
	uint64_t from, to; // as the cell measured it
	if (!out_iso_ms(json_str(row, "started"), &from) && !out_iso_ms(json_str(row, "ended"), &to) && to >= from)
		j->ms = to - from;
	const json_t *status = json_object_get(row, "status");
	j->status = json_is_integer(status) ? json_integer_value(status) : 125;
	return 0;
}

void job_kill(struct api *a, const struct job *j)
{
	struct err ignored;
	auto_free char *path = j->exec ? api_path("/v1/execs", j->exec, "kill") : NULL;
	if (path && !j->ended && api_do(a, "POST", path, "{\"signal\":9}", &ignored))
		return;
}

void box_remove(struct api *a, const char *id)
{
	struct err ignored;
	auto_free char *path = api_path("/v1/sandboxes", id, NULL), *full = xasprintf("%s?force=true", path);
	if (api_do(a, "DELETE", full, NULL, &ignored))
		return;
}

int contender_look(struct api *a, struct contender *c, struct err *e)
{
	struct review_place p = {.id = c->id};
	struct review_opts o = {.context = OPT_UNSET};
	c->diff = review_ask_diff(a, &p, &o, false, e);
	return c->diff ? 0 : -1;
}

char *contender_command(struct api *a, const struct contender *c, const char *given, struct err *e)
{
	auto_free char *path = api_path("/v1/sandboxes", c->id, NULL);
	auto_json json_t *box = given ? NULL : api_json(a, "GET", path, NULL, e);
	const char *own = box ? json_str(json_object_get(box, "project"), "test") : "";
	return given ? xstrdup(given) : *own ? xstrdup(own) : NULL;
}

int contender_test(struct api *a, struct contender *c, const char *cmd, struct err *e)
{
	char sh[] = "/bin/sh", flag[] = "-c";
	auto_free char *own = xstrdup(cmd), *path = api_path("/v1/sandboxes", c->id, "fork");
	char *argv[] = {sh, flag, own, NULL};
	auto_json json_t *made = api_json(a, "POST", path, "{\"count\":1}", e);
	if (!made)
		return -1;
	c->has_test = true;
	c->fork = xstrdup(json_str(json_array_get(json_object_get(made, "sandboxes"), 0), "id"));
	return job_start(a, c->fork, argv, NULL, &c->test, e);
}

int contender_tested(struct api *a, struct contender *c, struct err *e)
{
	if (!c->fork || job_look(a, &c->test, e))
		return c->fork ? -1 : 0;
	if (!c->test.ended)
		return 0;
	c->passed = !c->test.status;
	box_remove(a, c->fork);
	free(take(&c->fork));
	return 0;
}
