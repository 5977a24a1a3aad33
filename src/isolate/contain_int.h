// SPDX-License-Identifier: Apache-2.0
// Steps of the ordered list in contain.c that have files of their own.
#pragma once
#include "isolate/contain.h"

// contain_layer.c
int contain_staged(const struct contain *c, const char *name, struct err *e) MUST_USE; // opens what was attached to the stage
int contain_open_base(struct contain *c, const struct cell_spec *s, struct err *e) MUST_USE; // and the sealed layers, for walks
int contain_hide_base(const struct contain *c, const struct cell_spec *s, struct err *e) MUST_USE;
int contain_make_points(const struct contain *c, const struct cell_spec *s, struct err *e) MUST_USE;
int contain_ready_part(int layer, const char *part, struct err *e) MUST_USE;
int contain_ready_layer(const struct contain *c, const struct plan *p, struct err *e) MUST_USE; // for the overlays of the plan
int contain_ready_caches(const struct contain *c, const struct cell_spec *s, struct err *e) MUST_USE;
int contain_own_top(const struct contain *c, struct err *e) MUST_USE;

// contain_landlock.c. Needs no_new_privs, and the ids that the cell will have.
int contain_landlock(const struct contain *c, const struct cell_spec *s, int abi, struct err *e) MUST_USE;

// contain_test.c
int contain_test_namespaces(const struct contain *c, bool nested, struct err *e) MUST_USE;
int contain_test_settings(struct err *e) MUST_USE; // before the filter, under which an open for writing may wait for the supervisor
int contain_test_self(uint64_t keep, struct err *e) MUST_USE; // keep: the capabilities that must be left
