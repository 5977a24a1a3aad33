// SPDX-License-Identifier: Apache-2.0
// The first message of a command's WebSocket, and the bodies of the same form: arbitrary text is an exec or an error.
#include "api/code.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e;
	auto_json json_t *o = json_read((const char *)data, size, &e);
	if (!json_is_object(o))
		return 0;
	struct exec_request x = {0}, j = {0};
	if (!decode_exec(o, &x, &e) && (!x.argv || !x.argv[0]))
		abort();
	if (!decode_job(o, &j, &e) && (!j.argv || !j.argv[0] || !j.job))
		abort();
	exec_request_done(&x);
	exec_request_done(&j);
	return 0;
}
