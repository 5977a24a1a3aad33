// SPDX-License-Identifier: Apache-2.0
// An import under way; gc must leave its directory alone.
#pragma once
#include "engine/engine_int.h"

struct import {
	struct engine *g;
	struct done done;
	struct image_row row;
	struct import *next;
};
