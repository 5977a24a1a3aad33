// SPDX-License-Identifier: Apache-2.0
// The daemon that SKEP_HOST names, and which we never start: unix:///path, http://HOST[:PORT], https://HOST[:PORT].
#pragma once
#include "base/err.h"

// A connection to it. With https it is a local socket whose other end is a process of ours that speaks TLS (gate/tls_line.h):
// when this returns the host has shown a certificate for its name. There is no way from there to a plain one.
int host_connect(const char *host, struct err *e) MUST_USE;
