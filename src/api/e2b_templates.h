// SPDX-License-Identifier: Apache-2.0
// Templates in memory (e2b_templates.c), for their requests (e2b_template_api.c, e2b_build_api.c), snapshots and builds.
#pragma once
#include "api/e2b_int.h"

struct e2b_template *e2b_templates(void); // first of all
bool e2b_templates_full(void);
struct e2b_template *e2b_template_named(const char *name); // or by id; NULL
struct e2b_template *e2b_template_of(struct request *r);	// that its path names; NULL: it was answered
void e2b_template_drop(struct engine *g, struct e2b_template *t);
struct e2b_tag *e2b_tag_of(const struct e2b_template *t, const char *tag);
void e2b_tag_drop(struct e2b_template *t, const char *tag);
void e2b_builds_trim(struct engine *g, struct e2b_template *t); // builds that no tag names go, with their snapshots
bool e2b_name_is(const char *s, size_t n);
bool e2b_tag_is(const char *s);
int e2b_word_split(const char *word, char **out_name, char **out_tag, struct err *e) MUST_USE; // owned; *out_tag NULL = none
bool e2b_snapshot_is_used(const char *snapshot);
