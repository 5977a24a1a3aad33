// SPDX-License-Identifier: Apache-2.0
// The control plane of the E2B surface: its table, which requests are its own, the form of its errors.
#include "api/e2b_int.h"
#include "api/e2b_routes.h"

#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define PREFIX "/e2b"

// The number in the body is what the SDKs go by.
void e2b_say(struct request *r, int status, const char *message)
{
	struct jsonw w = answer_json(r);
	buf_clear(&r->answer);
	jw_open(&w, '{');
	jw_ku64(&w, "code", (uint64_t)status);
	jw_kstr(&w, "message", message);
	jw_close(&w, '}');
	request_answer(r, status);
}

int e2b_status(const struct err *e)
{
	return status_of(e);
}

static void fail(struct request *r, const struct err *e)
{
	e2b_say(r, e2b_status(e), e->msg);
}

bool e2b_number(struct request *r, const char *key, int64_t min, uint64_t *inout)
{
	const json_t *v = json_object_get(r->json, key);
	if (!v || json_is_null(v))
		return true;
	if (!json_is_integer(v) || json_integer_value(v) < min) {
		e2b_error(r, 400, "%s must be a whole number of at least %lld", key, (long long)min);
		return false;
	}
	*inout = (uint64_t)json_integer_value(v);
	return true;
}

// --- small ones ---

static void get_health(struct request *r)
{
	buf_str(&r->answer, "{\"status\":\"ok\"}");
	request_answer(r, 200);
}

// For a shell: eval "$(curl -s …/e2b/env)". Who can ask without a key needs to bring one only where one is checked.
static void get_env(struct request *r)
{
	const char *host = request_header(r, "Host"), *proto = request_header(r, "X-Forwarded-Proto"), *key = request_header(r, "X-API-KEY");
	const char *bearer = request_header(r, "Authorization"), *scheme = proto && !strcmp(proto, "https") ? "https" : "http";
	auto_free char *own = bearer && str_has_prefix(bearer, "Bearer skep_") ? xasprintf("e2b_%s", bearer + strlen("Bearer skep_")) : NULL;
	const char *shown = key ? key : own ? own : "e2b_0000000000000000000000000000000000000000";
	size_t n = strspn(shown, "0123456789abcdefghijklmnopqrstuvwxyz_"), h = host ? strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]") : 0;
	if (shown[n] || !host || host[h]) {
		e2b_error(r, 400, "the address or key of this request can not be put into a shell");
		return;
	}
	buf_fmt(&r->answer, "export E2B_API_KEY=%s\nexport E2B_API_URL=%s://%s\nexport E2B_SANDBOX_URL=%s://%s\n"
			    "export E2B_VOLUME_API_URL=%s://%s\n", shown, scheme, host, scheme, host, scheme, host);
	r->type = "text/plain; charset=utf-8";
	request_answer(r, 200);
}

static void get_teams(struct request *r)
{
	buf_str(&r->answer, "[{\"teamID\":\"skep\",\"name\":\"skep\",\"apiKey\":\"\",\"isDefault\":true}]");
	request_answer(r, 200);
}

// A token that is for some sandboxes only makes, lists and uses those; templates other than the built-in ones are for tokens
// that are for all. Where a list is seen in part, its handler asks who sees what.
static const struct route routes[] = {
	{"GET", "/health", BODY_NONE, get_health, SCOPE_OPEN},
	{"GET", "/env", BODY_NONE, get_env, SCOPE_OPEN},
	{"GET", "/teams", BODY_NONE, get_teams, SEEN(SCOPE_READ)},

	{"POST", "/v2/sandboxes", BODY_JSON, e2b_create_v2, SEEN(SCOPE_RUN)},
	{"POST", "/sandboxes", BODY_JSON, e2b_create_v1, SEEN(SCOPE_RUN)},
	{"GET", "/v2/sandboxes", BODY_NONE, e2b_list_v2, SEEN(SCOPE_READ)},
	{"GET", "/sandboxes", BODY_NONE, e2b_list_v1, SEEN(SCOPE_READ)},
	{"GET", "/sandboxes/metrics", BODY_NONE, e2b_get_all_metrics, SEEN(SCOPE_READ)},
	{"GET", "/sandboxes/{}", BODY_NONE, e2b_get_sandbox, SCOPE_READ},
	{"DELETE", "/sandboxes/{}", BODY_NONE, e2b_delete_sandbox, SCOPE_RUN},
	{"POST", "/v2/sandboxes/{}/connect", BODY_JSON, e2b_connect_v2, SCOPE_RUN},
	{"POST", "/sandboxes/{}/connect", BODY_JSON, e2b_connect_v1, SCOPE_RUN},
	{"POST", "/sandboxes/{}/resume", BODY_JSON, e2b_post_resume, SCOPE_RUN},
	{"POST", "/sandboxes/{}/pause", BODY_JSON, e2b_post_pause, SCOPE_RUN},
	{"POST", "/sandboxes/{}/timeout", BODY_JSON, e2b_post_timeout, SCOPE_RUN},
	{"POST", "/sandboxes/{}/refreshes", BODY_JSON, e2b_post_refreshes, SCOPE_RUN},
	{"PUT", "/sandboxes/{}/network", BODY_JSON, e2b_put_network, SCOPE_RUN},
	{"POST", "/sandboxes/{}/fork", BODY_JSON, e2b_post_fork, SCOPE_RUN},
	{"GET", "/sandboxes/{}/metrics", BODY_NONE, e2b_get_metrics, SCOPE_READ},
	{"GET", "/sandboxes/{}/logs", BODY_NONE, e2b_logs_v1, SCOPE_READ},
	{"GET", "/v2/sandboxes/{}/logs", BODY_NONE, e2b_logs_v2, SCOPE_READ},
	{"POST", "/sandboxes/{}/snapshots", BODY_JSON, e2b_post_snapshot, SCOPE_RUN},
	{"GET", "/snapshots", BODY_NONE, e2b_get_snapshots, SEEN(SCOPE_READ)},

	{"POST", "/v3/templates", BODY_JSON, e2b_post_template, SCOPE_RUN},
	{"GET", "/templates/{}/files/{}", BODY_NONE, e2b_get_files, SCOPE_RUN},
	{"PUT", "/upload/{}", BODY_STREAM, e2b_put_upload, SCOPE_OPEN}, // its address is the key
	{"POST", "/v2/templates/{}/builds/{}", BODY_JSON, e2b_post_build, SCOPE_RUN},
	{"GET", "/templates/{}/builds/{}/status", BODY_NONE, e2b_get_build_status, SCOPE_READ},
	{"GET", "/templates/{}/builds/{}/logs", BODY_NONE, e2b_get_build_logs, SCOPE_READ},
	{"GET", "/templates/aliases/{}", BODY_NONE, e2b_get_alias, SEEN(SCOPE_READ)},
	{"POST", "/templates/tags", BODY_JSON, e2b_post_tags, SCOPE_RUN},
	{"DELETE", "/templates/tags", BODY_JSON, e2b_delete_tags, SCOPE_RUN},
	{"GET", "/templates/{}/tags", BODY_NONE, e2b_get_tags, SCOPE_READ},
	{"GET", "/templates", BODY_NONE, e2b_get_templates, SEEN(SCOPE_READ)},
	{"GET", "/v2/templates", BODY_NONE, e2b_get_templates, SEEN(SCOPE_READ)},
	{"GET", "/templates/{}", BODY_NONE, e2b_get_template, SCOPE_READ},
	{"PATCH", "/v2/templates/{}", BODY_JSON, e2b_patch_template, SCOPE_RUN},
	{"PATCH", "/templates/{}", BODY_JSON, e2b_patch_template, SCOPE_RUN},
	{"DELETE", "/templates/{}", BODY_NONE, e2b_delete_template, SCOPE_RUN},

	{"GET", "/volumes", BODY_NONE, e2b_get_volumes, SEEN(SCOPE_READ)},
	{"POST", "/volumes", BODY_JSON, e2b_post_volume, SEEN(SCOPE_RUN)},
	{"GET", "/volumes/{}", BODY_NONE, e2b_get_volume, SEEN(SCOPE_RUN)}, // it gives the token that may write
	{"DELETE", "/volumes/{}", BODY_NONE, e2b_delete_volume, SEEN(SCOPE_RUN)},
	// The volume's token is what lets in.
	{"GET", "/volumecontent/{}/dir", BODY_NONE, e2b_get_volume_dir, SCOPE_OPEN},
	{"POST", "/volumecontent/{}/dir", BODY_NONE, e2b_post_volume_dir, SCOPE_OPEN},
	{"GET", "/volumecontent/{}/path", BODY_NONE, e2b_get_volume_path, SCOPE_OPEN},
	{"PATCH", "/volumecontent/{}/path", BODY_JSON, e2b_patch_volume_path, SCOPE_OPEN},
	{"DELETE", "/volumecontent/{}/path", BODY_NONE, e2b_delete_volume_path, SCOPE_OPEN},
	{"GET", "/volumecontent/{}/file", BODY_NONE, e2b_get_volume_file, SCOPE_OPEN},
	{"PUT", "/volumecontent/{}/file", BODY_STREAM, e2b_put_volume_file, SCOPE_OPEN},

	{"GET", "/secrets", BODY_NONE, e2b_get_secrets, SEEN(SCOPE_REVIEW)},
	{"POST", "/secrets", BODY_JSON, e2b_post_secret, SEEN(SCOPE_REVIEW)},
	{"GET", "/secrets/{}", BODY_NONE, e2b_get_secret, SEEN(SCOPE_REVIEW)},
	{"POST", "/secrets/{}", BODY_JSON, e2b_update_secret, SEEN(SCOPE_REVIEW)},
	{"DELETE", "/secrets/{}", BODY_NONE, e2b_delete_secret, SEEN(SCOPE_REVIEW)},
	{NULL, NULL, BODY_NONE, NULL, SCOPE_OPEN},
};

static bool below(const char *target, const char *top)
{
	size_t n = strlen(top);
	return !strncmp(target, top, n) && (!target[n] || target[n] == '/' || target[n] == '?');
}

// Below the prefix, with E2B's key, or under a path that only E2B has: with its own port or host name there is no prefix.
static bool is_mine(const struct request *r)
{
	static const char *const tops[] = {PREFIX,	 "/v2/sandboxes", "/sandboxes", "/snapshots", "/v2/templates", "/v3/templates",
					   "/templates", "/volumes",	  "/volumecontent", "/secrets",	"/teams"};
	for (size_t i = 0; i < countof(tops); i++)
		if (below(r->target, tops[i]))
			return true;
	return request_header(r, "X-API-KEY") && strncmp(r->target, "/v1/", 4);
}

const struct surface e2b_api = {.name = "e2b", .prefix = PREFIX, .routes = routes, .mine = is_mine, .any_parts = true, .fail = fail};
