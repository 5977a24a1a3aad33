// SPDX-License-Identifier: Apache-2.0
// Requests to skepd (docs/api.md) and its answers as JSON.
#pragma once
#include "base/json.h"
#include "base/str.h"
#include "http/client.h"

struct api {
	struct http_client http;
};
#define API_NEEDS_REGISTRIES 61 // in err.sys of a CONFLICT: ask again, with the list of package registries
#define auto_api __attribute__((cleanup(api_close)))
#define API_CLOSED ((struct api){.http.fd = -1})

int api_open(struct api *a, struct err *e) MUST_USE; // starts skepd if need be
void api_close(struct api *a);

// An error answer becomes *e, its kind the answer's. body: JSON or NULL.
json_t *api_json(struct api *a, const char *method, const char *path, const char *body,
		 struct err *e) MUST_USE; // owned
int api_do(struct api *a, const char *method, const char *path, const char *body, struct err *e) MUST_USE;
#define API_LONG (1u << 30) // bytes of an answer that may be long
// An answer that is not one JSON value.
void api_doing(const char *what); // what is said on a terminal while answers take long; not copied
int api_raw(struct api *a, const char *path, const char *body, struct http_reply *out, struct err *e) MUST_USE; // POST
// A POST whose answer comes in pieces: on_piece gets what is there and cuts off what it has used.
int api_lines(struct api *a, const char *path, const char *body, void (*on_piece)(void *ctx, struct buf *body), void *ctx,
	      struct err *e) MUST_USE;
// PUT of a file's bytes; GET of bytes into a file.
int api_put_file(struct api *a, const char *path, int fd, struct err *e) MUST_USE;
int api_get_file(struct api *a, const char *path, int fd, struct err *e) MUST_USE;
int api_bytes(struct api *a, const char *path, struct http_reply *out, struct err *e) MUST_USE;
// Whole lines of a journal (id NULL: the service's) from offset *at on, which moves behind them. 1: *out, borrowed from r; 0: no more.
int api_journal(struct api *a, const char *id, unsigned wait_ms, uint64_t *at, struct http_reply *r, struct str *out, struct err *e) MUST_USE;

// "PREFIX/ID/SUFFIX" with ID encoded. SUFFIX may be NULL or carry a query. Owned.
char *api_path(const char *prefix, const char *id, const char *suffix);

// What an omitted ID means: the newest sandbox of this directory with pending changes. While a cell runs they are not
// known, which counts as some: the default must not change to an older sandbox under its user. Owned.
char *api_default_id(struct api *a, struct err *e) MUST_USE;
// For verbs that need no changes (log, show, shell, undo, policy suggest): the same, or else the newest sandbox of this directory. Owned.
char *api_newest_id(struct api *a, struct err *e) MUST_USE;
// The same, out of sandboxes newest first. Borrowed from them; NULL = none.
const char *api_pick(const json_t *boxes, const char *cwd, bool clean_too);
