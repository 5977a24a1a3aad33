// SPDX-License-Identifier: Apache-2.0
// Between the handlers of files: files.c (what is small), files_down.c, files_up.c, files_watch.c (what streams).
#pragma once
#include "api/files.h"
#include "base/jsonw.h"
#include "engine/fileops.h"

struct file_at file_at(struct request *r, const char *user); // user NULL: ?user=, or the sandbox's
bool file_query_path(struct request *r, const char **out);    // ?path=; false: the request was failed
bool file_query_flag(struct request *r, const char *key);
void file_encode(struct jsonw *w, const struct file_record *rec);
void file_set_etag(struct request *r, const struct file_record *rec); // the header
bool etag_list_has(const char *list, const char *etag, bool weak); // "a", W/"b", *; weak: W/"b" is b, too
