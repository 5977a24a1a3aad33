// SPDX-License-Identifier: Apache-2.0
// Handlers of images, for the table in routes.c.
#pragma once
#include "api/server.h"

void get_images(struct request *r);
void get_image(struct request *r);
void post_image(struct request *r);
void post_image_pull(struct request *r); // pulls.c
void delete_image(struct request *r);
