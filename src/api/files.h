// SPDX-License-Identifier: Apache-2.0
// Files of a sandbox over HTTP (docs/streams.md): handlers for the native table.
#pragma once
#include "api/server.h"

void get_file(struct request *r); // also HEAD
void put_file(struct request *r);
void delete_file(struct request *r);
void get_file_tar(struct request *r);
void put_file_tar(struct request *r);
void get_file_list(struct request *r);
void get_file_stat(struct request *r);
void get_file_watch(struct request *r);
void post_file_mkdir(struct request *r);
void post_file_move(struct request *r);
void post_file_copy(struct request *r);
void post_file_remove(struct request *r);
void post_file_search(struct request *r);
void post_file_edit(struct request *r);
