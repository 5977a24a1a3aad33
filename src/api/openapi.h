// SPDX-License-Identifier: Apache-2.0
// The OpenAPI 3.1 document of the native API: paths come from the route table itself, so none can be missing; what they
// take and give comes from a table beside it.
#pragma once
#include "api/server.h"

void get_openapi(struct request *r);
void openapi_print(struct buf *out);

// openapi_table.c
struct api_schema {
	const char *name;
	// "field:type …": s string, i integer, b boolean, o any object, m map of strings, v anything, #Name another schema; in
	// front [] for a list of them; behind ? when it may be null, ! when it is always there.
	const char *fields;
};
struct api_op {
	const char *method, *path, *summary;
	const char *in;	 // schema of the body, NULL = none
	int status;	 // of success
	const char *out; // schema of the answer; NULL = no body; a media type when it has a slash
	const char *query; // "name name …"
};
extern const struct api_schema api_schemas[]; // ends with a NULL name
extern const struct api_op api_ops[];	      // likewise method
