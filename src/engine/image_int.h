// SPDX-License-Identifier: Apache-2.0
// An import under way; gc must leave its directory alone.
#pragma once
#include "engine/engine_int.h"

struct child;
struct import {
	struct engine *g;
	struct done done;
	struct image_row row;
	char *from; // what is unpacked
	struct child *child;
	struct import *next;
};
// row without id, sizes and time; copied. Its done is called from the loop.
struct import *image_import_begin(struct engine *g, const char *from, const struct image_row *row, struct done d, struct err *e) MUST_USE;
void image_import_stop(struct import *im); // its done follows
int image_name_check(struct engine *g, const char *name, struct err *e) MUST_USE; // free and well-formed
