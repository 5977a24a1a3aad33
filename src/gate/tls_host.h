// SPDX-License-Identifier: Apache-2.0
// A host behind TLS on this machine's loopback, for `skep doctor --tls`: with an authority of its own, which is not kept.
#pragma once
#include "base/err.h"

// Writes ca.pem into dir and then its port, a line, on stdout; answers every request with one word, and adds its path to dir/log as a line.
// Returns when stdin ends.
int tls_host_run(const char *dir, const char *name, struct err *e) MUST_USE;
