// SPDX-License-Identifier: Apache-2.0
// skep-ssh: the server's end of an SSH connection to one sandbox, on stdin and stdout. `skep ssh --proxy` starts it.
#include "ssh/key.h"
#include "ssh/server.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ASKS 3

static const char usage[] = "usage: skep-ssh --keys DIR                   make the host key\n"
			    "       skep-ssh --keys DIR SOCKET SANDBOX    serve on stdin and stdout\n"
			    "       skep-ssh --keys DIR --far             the same; descriptor 3 leads to skep, which asks for us\n"
			    "This is the server's end of `skep ssh`; see skep(1).\n";

int main(int argc, char **argv)
{
	struct err e = {0};
	if (argc == 2 && !strcmp(argv[1], "--help"))
		return fputs(usage, stdout) < 0;
	bool far = argc == 4 && !strcmp(argv[3], "--far");
	if ((argc != 3 && argc != 5 && !far) || strcmp(argv[1], "--keys")) {
		fputs(usage, stderr);
		return 2;
	}
	struct server_args a = {.keys = argv[2], .socket = argv[3], .asks = far ? ASKS : -1};
	if (argc == 5)
		a.sandbox = argv[4];
	if (argc == 3 ? key_prepare(a.keys, &e) : server_run(&a, &e)) {
		fprintf(stderr, "skep: %s\n", e.msg);
		_exit(1);
	}
	_exit(0); // sealed: what libraries do at the end may not be allowed any more
}
