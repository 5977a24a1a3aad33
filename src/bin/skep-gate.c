// SPDX-License-Identifier: Apache-2.0
// skep-gate            the gate of one cell: started by skep-cell with its channel on descriptor 3
// skep-gate --make-ca [NAME]   prints a new certificate authority for a sandbox: certificate, then key, PEM
// skep-gate --tls-host DIR NAME   a host behind TLS on the loopback, for `skep doctor --tls`
// skep-gate --tls-line NAME [CA]   TLS for `skep`: descriptor 3 is connected to the host, 4 to skep
#include "base/log.h"
#include "gate/ca.h"
#include "gate/gate.h"
#include "gate/tls_host.h"
#include "gate/tls_line.h"
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHANNEL 3
#define LINE_NET 3
#define LINE_LOCAL 4

static int fail(const struct err *e)
{
	fprintf(stderr, "skep-gate: %s\n", e->msg);
	return 1;
}

static void no_core(void)
{
	const struct rlimit none = {0, 0};
	setrlimit(RLIMIT_CORE, &none);
}

static int make_ca(const char *name)
{
	struct err e;
	no_core();
	return ca_print(name, &e) ? fail(&e) : 0;
}

static int tls_host(const char *dir, const char *name)
{
	struct err e;
	no_core();
	signal(SIGPIPE, SIG_IGN);
	return tls_host_run(dir, name, &e) ? fail(&e) : 0;
}

static bool is_socket(int fd)
{
	struct stat st;
	return !fstat(fd, &st) && S_ISSOCK(st.st_mode);
}

static int tls_line(const char *name, const char *ca)
{
	struct err e;
	if (!is_socket(LINE_NET) || !is_socket(LINE_LOCAL)) {
		fprintf(stderr, "skep-gate --tls-line is started by skep\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	fcntl(LINE_NET, F_SETFD, FD_CLOEXEC);
	fcntl(LINE_LOCAL, F_SETFD, FD_CLOEXEC);
	_exit(tls_line_run(&(struct tls_line_args){.net = LINE_NET, .line = LINE_LOCAL, .name = name, .ca = ca}, &e) ? fail(&e) : 0);
}

int main(int argc, char **argv)
{
	struct err e;
	log_init("skep-gate", LOG_WARN);
	if (argc >= 2 && argc <= 3 && !strcmp(argv[1], "--make-ca"))
		return make_ca(argc == 3 ? argv[2] : "");
	if (argc == 4 && !strcmp(argv[1], "--tls-host"))
		return tls_host(argv[2], argv[3]);
	if (argc >= 3 && argc <= 4 && !strcmp(argv[1], "--tls-line"))
		return tls_line(argv[2], argc == 4 ? argv[3] : NULL);
	if (argc != 1 || !is_socket(CHANNEL)) {
		fprintf(stderr, "skep-gate is started by skep-cell\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	fcntl(CHANNEL, F_SETFD, FD_CLOEXEC);
	int rc = gate_run(CHANNEL, &e);
	if (rc)
		log_line(LOG_ERROR, "%s", e.msg);
	_exit(rc ? 1 : 0); // no exit handlers: nothing of ours or of a library's is worth running sealed
}
