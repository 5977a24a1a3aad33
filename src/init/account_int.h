// SPDX-License-Identifier: Apache-2.0
// The operations of account_files.c, for the table of account.c.
#pragma once
#include "init/files_int.h"

int account_entry(char *const *a, struct err *e) MUST_USE;
int account_entries(char *const *a, struct err *e) MUST_USE;
int account_make(char *const *a, struct err *e) MUST_USE;
int account_move(char *const *a, struct err *e) MUST_USE;
int account_fill(char *const *a, struct err *e) MUST_USE;
int account_fetch(char *const *a, struct err *e) MUST_USE;
int account_compose(char *const *a, struct err *e) MUST_USE;
int account_own_fd(int fd, struct err *e) MUST_USE;
