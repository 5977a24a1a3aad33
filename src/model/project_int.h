// SPDX-License-Identifier: Apache-2.0
// A YAML document as a small bounded tree (project.c, which alone knows libyaml), and what is read from it
// (project_fields.c, config_fields.c).
#pragma once
#include "model/project.h"

enum node_kind { NODE_TEXT, NODE_LIST, NODE_MAP };

struct node {
	enum node_kind kind;
	unsigned line; // 1 is the first
	char *key;     // in a map; NULL in a list
	char *text;    // NODE_TEXT; has no NUL inside
	bool plain;    // not quoted: may stand for null
	struct node *first, *last, *next;
};
void node_free(struct node *n);
bool node_is_null(const struct node *n); // `key:` with nothing behind it says nothing

// One key of a map; `read` puts its value at the offset of what the map is read into.
struct field {
	const char *key;
	int (*read)(const struct node *n, void *out, struct err *e);
	size_t offset;
};
int field_fault(const struct node *n, const char *what, struct err *e); // -1, with the line
int field_read_map(const struct node *map, const struct field *f, size_t count, void *base, struct err *e) MUST_USE;
// Shapes of values that both files have. out: char **, char ***, struct net_part *, struct limit_wish *.
int field_read_text(const struct node *n, void *out, struct err *e) MUST_USE;
int field_read_texts(const struct node *n, void *out, struct err *e) MUST_USE;
int field_read_net(const struct node *n, void *out, struct err *e) MUST_USE;
int field_read_limits(const struct node *n, void *out, struct err *e) MUST_USE;

// root: NULL when the document says nothing.
int project_from(const struct node *root, struct project *out, struct err *e) MUST_USE;
int config_from(const struct node *root, struct config *out, struct err *e) MUST_USE;
