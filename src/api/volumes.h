// SPDX-License-Identifier: Apache-2.0
// Handlers of the native API around volumes.
#pragma once
#include "api/server.h"

void get_volumes(struct request *r);
void post_volume(struct request *r);
void get_volume(struct request *r);
void delete_volume(struct request *r);
void get_volume_file(struct request *r);
void put_volume_file(struct request *r);
void delete_volume_file(struct request *r);
void get_volume_list(struct request *r);
void get_volume_stat(struct request *r);
void post_volume_mkdir(struct request *r);
void post_volume_set(struct request *r);
