// SPDX-License-Identifier: Apache-2.0
// A value as it lies in the tree: the first of a list or an object is right behind it.
#pragma once
#include "base/json.h"

struct json {
	uint32_t type;	 // enum json_type
	uint32_t next;	 // distance to the next one of the same list or object, 0: this is the last
	const char *key; // of a member
	union {
		int64_t whole;
		double real;
		const char *text;
		size_t n; // values in a list or object
	};
};
