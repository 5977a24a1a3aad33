// SPDX-License-Identifier: Apache-2.0
// The words of one file operation, as init reads them (init/files.h): OP PATH, then options. The caller frees them.
#pragma once
#include "engine/fileops.h"

char **fileargs_new(const struct file_at *at, const char *op, const char *path);
void fileargs_number(char ***v, const char *key, uint64_t n); // key: with its '='
void fileargs_text(char ***v, const char *key, const char *text);
void fileargs_flags(char ***v, unsigned flags); // enum file_flag
void fileargs_how(char ***v, const struct file_how *how);
