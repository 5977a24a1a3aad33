// SPDX-License-Identifier: Apache-2.0
// A YAML document as a small bounded tree (project.c, which alone knows libyaml), and what is read from it
// (project_fields.c).
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

// root: NULL when the document says nothing.
int project_from(const struct node *root, struct project *out, struct err *e) MUST_USE;
int config_from(const struct node *root, struct config *out, struct err *e) MUST_USE;
