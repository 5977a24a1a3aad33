// SPDX-License-Identifier: Apache-2.0
// The client's end of a TLS connection for a program that has no TLS itself (`skep` with SKEP_HOST=https://…): a process of its
// own between a connected TCP socket and a local one.
#pragma once
#include "base/err.h"

// The answer on the local socket, before any byte: TLS_LINE_OK; or one of the others and a message, then its end.
#define TLS_LINE_OK 'R'
#define TLS_LINE_DENIED 'D' // the certificate is not accepted, or not for this name
#define TLS_LINE_FAILED 'E'

struct tls_line_args {
	int net, line;	  // taken
	const char *name; // a host name, or an address without brackets: what the certificate must be for
	const char *ca;	  // a PEM file trusted beside the system's; NULL = none
};
// Returns when both ends are over. -1: it did not get so far that the other side could be told.
int tls_line_run(const struct tls_line_args *a, struct err *e) MUST_USE;
