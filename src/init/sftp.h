// SPDX-License-Identifier: Apache-2.0
// The job `sftp [DIR]`: SFTP version 3 on stdin and stdout, relative paths from DIR (default: the home directory, which is
// what clients mean by ~), until stdin ends. Whoever carries the
// bytes (skep-ssh) needs to know nothing of files; what may be done is what the cell's user may do.
#pragma once
#include "base/err.h"

int sftp_run(const char *dir, struct err *e) MUST_USE;
