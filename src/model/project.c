// SPDX-License-Identifier: Apache-2.0
// From bytes to a tree, by libyaml's events: they need no recursion, and whatever could make a small file mean a big
// tree (aliases) or mean something else to another reader (tags, repeated keys) is refused.
#include "model/project_int.h"

#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define DEPTH_MAX 8
#define NODES_MAX 4096

struct reader {
	yaml_parser_t yaml;
	struct node *stack[DEPTH_MAX]; // open lists and maps; borrowed from root
	int depth;
	size_t nodes;
	char *key; // read, its value not yet
	struct node *root;
	bool ended; // the one document
};

void node_free(struct node *n)
{
	while (n) {
		struct node *next = n->next;
		node_free(n->first);
		free(n->key);
		free(n->text);
		free(n);
		n = next;
	}
}

static int fault(const yaml_event_t *ev, const char *what, struct err *e)
{
	return err_set(e, ERR_INVALID, "line %zu: %s", ev->start_mark.line + 1, what);
}

static bool has_key(const struct node *map, const char *key)
{
	for (const struct node *n = map->first; n; n = n->next)
		if (!strcmp(n->key, key))
			return true;
	return false;
}

// The place of a new node: below the innermost open one, or the root.
static int put(struct reader *r, struct node *n, const yaml_event_t *ev, struct err *e)
{
	struct node *up = r->depth ? r->stack[r->depth - 1] : NULL;
	n->line = (unsigned)ev->start_mark.line + 1;
	if (!up) {
		r->root = n;
		return 0;
	}
	n->key = take(&r->key);
	if (up->last)
		up->last->next = n;
	else
		up->first = n;
	up->last = n;
	return ++r->nodes > NODES_MAX ? fault(ev, "the file has too many entries", e) : 0;
}

static bool wants_key(const struct reader *r)
{
	return r->depth && r->stack[r->depth - 1]->kind == NODE_MAP && !r->key;
}

static int take_scalar(struct reader *r, const yaml_event_t *ev, struct err *e)
{
	const char *p = (const char *)ev->data.scalar.value;
	size_t n = ev->data.scalar.length;
	if (ev->data.scalar.anchor || ev->data.scalar.tag)
		return fault(ev, "anchors and tags are not read here", e);
	if (memchr(p, 0, n))
		return fault(ev, "a NUL character", e);
	if (wants_key(r)) {
		if (has_key(r->stack[r->depth - 1], p))
			return fault(ev, "the key is there twice", e);
		r->key = xstrndup(p, n);
		return 0;
	}
	struct node *node = xcalloc(1, sizeof *node);
	node->text = xstrndup(p, n);
	node->plain = ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	return put(r, node, ev, e);
}

static int take_start(struct reader *r, const yaml_event_t *ev, enum node_kind kind, bool odd, struct err *e)
{
	if (odd)
		return fault(ev, "anchors and tags are not read here", e);
	if (wants_key(r))
		return fault(ev, "a key is a plain word", e);
	if (r->depth == DEPTH_MAX)
		return fault(ev, "nested too deeply", e);
	struct node *node = xcalloc(1, sizeof *node);
	node->kind = kind;
	if (put(r, node, ev, e))
		return -1;
	r->stack[r->depth++] = node;
	return 0;
}

static int take_document(struct reader *r, const yaml_event_t *ev, struct err *e)
{
	if (r->ended)
		return fault(ev, "a second document", e);
	if (ev->data.document_start.tag_directives.start != ev->data.document_start.tag_directives.end)
		return fault(ev, "anchors and tags are not read here", e);
	r->ended = true;
	return 0;
}

static int take_event(struct reader *r, const yaml_event_t *ev, struct err *e)
{
	switch (ev->type) {
	case YAML_DOCUMENT_START_EVENT:
		return take_document(r, ev, e);
	case YAML_ALIAS_EVENT:
		return fault(ev, "aliases are not read here", e);
	case YAML_SCALAR_EVENT:
		return take_scalar(r, ev, e);
	case YAML_SEQUENCE_START_EVENT:
		return take_start(r, ev, NODE_LIST, ev->data.sequence_start.anchor || ev->data.sequence_start.tag, e);
	case YAML_MAPPING_START_EVENT:
		return take_start(r, ev, NODE_MAP, ev->data.mapping_start.anchor || ev->data.mapping_start.tag, e);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		r->depth--;
		return 0;
	case YAML_NO_EVENT:
	case YAML_STREAM_START_EVENT:
	case YAML_STREAM_END_EVENT:
	case YAML_DOCUMENT_END_EVENT:
		return 0;
	}
	return 0;
}

// libyaml gives no line for a byte it can not read.
static size_t problem_line(const yaml_parser_t *y, const char *p, size_t n)
{
	size_t line = 1;
	if (y->error != YAML_READER_ERROR)
		return y->problem_mark.line + 1;
	for (size_t i = 0; i < n && i < y->problem_offset; i++)
		line += p[i] == '\n';
	return line;
}

static int take_all(struct reader *r, const char *p, size_t n, struct err *e)
{
	for (bool more = true; more;) {
		yaml_event_t ev;
		if (!yaml_parser_parse(&r->yaml, &ev))
			return err_set(e, ERR_INVALID, "line %zu: not YAML: %s", problem_line(&r->yaml, p, n),
				       r->yaml.problem ? r->yaml.problem : "unreadable");
		more = ev.type != YAML_STREAM_END_EVENT;
		int rc = take_event(r, &ev, e);
		yaml_event_delete(&ev);
		if (rc)
			return -1;
	}
	return 0;
}

// *out is NULL when the file says nothing.
static int tree(const char *p, size_t n, struct node **out, struct err *e)
{
	struct reader r = {0};
	if (n > PROJECT_FILE)
		return err_set(e, ERR_LIMIT, "the file is longer than %u bytes", PROJECT_FILE);
	if (n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3)) {
		p += 3;
		n -= 3;
	}
	if (!str_is_utf8(p, n)) // also keeps libyaml from guessing at UTF-16
		return err_set(e, ERR_INVALID, "the file is not UTF-8");
	if (!yaml_parser_initialize(&r.yaml))
		abort(); // out of memory
	yaml_parser_set_encoding(&r.yaml, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r.yaml, (const unsigned char *)p, n);
	int rc = take_all(&r, p, n, e);
	yaml_parser_delete(&r.yaml);
	free(r.key);
	if (rc) {
		node_free(r.root);
		return -1;
	}
	*out = r.root;
	return 0;
}

int project_parse(const char *p, size_t n, struct project *out, struct err *e)
{
	struct node *root;
	if (tree(p, n, &root, e))
		return -1;
	int rc = project_from(root, out, e);
	node_free(root);
	return rc;
}

int config_parse(const char *p, size_t n, struct config *out, struct err *e)
{
	struct node *root;
	if (tree(p, n, &root, e))
		return -1;
	int rc = config_from(root, out, e);
	node_free(root);
	return rc;
}
