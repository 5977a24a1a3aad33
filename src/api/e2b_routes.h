// SPDX-License-Identifier: Apache-2.0
// The handlers of the E2B control plane, for its table in e2b.c.
#pragma once

struct request;
typedef void e2b_handler(struct request *r);

e2b_handler e2b_create_v1, e2b_create_v2;						      // e2b_create.c
e2b_handler e2b_post_fork;							      // e2b_fork.c
e2b_handler e2b_connect_v1, e2b_connect_v2, e2b_post_resume, e2b_post_pause, e2b_delete_sandbox, e2b_post_timeout,
	e2b_post_refreshes, e2b_put_network;			      // e2b_sandboxes.c
e2b_handler e2b_list_v1, e2b_list_v2, e2b_get_sandbox, e2b_logs_v1, e2b_logs_v2;      // e2b_list.c
e2b_handler e2b_get_metrics, e2b_get_all_metrics;				      // e2b_metrics.c
e2b_handler e2b_post_snapshot, e2b_get_snapshots;				      // e2b_snapshots.c
e2b_handler e2b_post_template, e2b_get_alias, e2b_post_tags, e2b_delete_tags, e2b_get_tags, e2b_get_templates, e2b_get_template,
	e2b_patch_template, e2b_delete_template;			   // e2b_template_api.c
e2b_handler e2b_post_build, e2b_get_build_status, e2b_get_build_logs; // e2b_build_api.c
e2b_handler e2b_get_volumes, e2b_post_volume, e2b_get_volume, e2b_delete_volume, e2b_get_volume_dir, e2b_post_volume_dir, e2b_get_volume_path,
	e2b_patch_volume_path, e2b_delete_volume_path, e2b_get_volume_file, e2b_put_volume_file; // e2b_volumes.c
e2b_handler e2b_get_secrets, e2b_post_secret, e2b_get_secret, e2b_update_secret, e2b_delete_secret; // e2b_secrets.c
e2b_handler e2b_get_files, e2b_put_upload;					      // e2b_upload.c
