// SPDX-License-Identifier: Apache-2.0
// Every verb, in the order of help. A family is several verbs with the same first word.
#pragma once
#include "cli/opt.h"

#define SKEP_VERSION "0.1.0"

extern const struct cmd cmd_run, cmd_new, cmd_exec, cmd_shell, cmd_attach, cmd_logs, cmd_kill, cmd_cp;
extern const struct cmd cmd_preview, cmd_ssh, cmd_code;
extern const struct cmd cmd_ps, cmd_show, cmd_start, cmd_stop, cmd_pause, cmd_resume, cmd_pin, cmd_unpin, cmd_rm, cmd_log;
extern const struct cmd cmd_image_ls, cmd_image_pull, cmd_image_import, cmd_image_rm, cmd_gc, cmd_doctor;
extern const struct cmd cmd_mcp, cmd_init, cmd_wrap;
extern const struct cmd cmd_secret_set, cmd_secret_ls, cmd_secret_rm, cmd_trust;
extern const struct cmd cmd_policy_show, cmd_policy_set, cmd_policy_check, cmd_policy_explain, cmd_policy_suggest;
extern const struct cmd cmd_snapshot, cmd_snapshot_rm, cmd_snapshots, cmd_rollback, cmd_fork;
extern const struct cmd cmd_watch, cmd_diff, cmd_apply, cmd_dismiss, cmd_undo, cmd_export, cmd_compare, cmd_race;
extern const struct cmd cmd_serve, cmd_token_new, cmd_token_ls, cmd_token_rm;
extern const struct cmd cmd_volume_create, cmd_volume_ls, cmd_volume_rm, cmd_volume_cp;
extern const struct cmd cmd_completion, cmd_version, cmd_help;

extern const struct cmd *const verbs[]; // NULL-terminated

// The verb argv starts with and how many words name it; NULL when there is none. For the first word of a
// family alone *out_family is set.
const struct cmd *verbs_find(char **argv, int *out_words, bool *out_family);

// The whole program behind main: exit status.
int verbs_main(char **argv);
