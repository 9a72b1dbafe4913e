"""Functions of PostgreSQL and MySQL that only read. Every other one, a runbook's own too, may change anything."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cairn_answerer.words import word_set

_GENERAL = word_set(
    "abs ceil ceiling floor round trunc truncate sign sqrt power pow mod exp ln log log2 log10 div random rand "
    "greatest "
    "least coalesce nullif ifnull isnull if iif nvl cast convert extract position substring trim overlay collate "
    "count sum avg min max every bool_and bool_or bit_and bit_or stddev stddev_pop stddev_samp variance var_pop "
    "var_samp "
    "corr mode percentile_cont percentile_disc array_agg string_agg group_concat json_agg jsonb_agg json_object_agg "
    "jsonb_object_agg json_arrayagg json_objectagg xmlagg any_value grouping row_number rank dense_rank percent_rank "
    "cume_dist ntile lag lead first_value last_value nth_value "
    "lower upper initcap length char_length character_length octet_length bit_length concat concat_ws format left "
    "right "
    "lpad rpad ltrim rtrim btrim repeat replace reverse split_part substr substring_index strpos instr locate ascii "
    "chr "
    "char translate md5 sha1 sha2 sha224 sha256 sha384 sha512 encode decode hex unhex to_hex bin oct quote quote_ident "
    "quote_literal quote_nullable regexp_match regexp_matches regexp_replace regexp_split_to_array regexp_count "
    "regexp_split_to_table regexp_substr regexp_like regexp_instr starts_with string_to_array string_to_table field "
    "find_in_set elt strcmp soundex similarity word_similarity levenshtein unaccent to_tsvector to_tsquery ts_rank "
    "plainto_tsquery websearch_to_tsquery phraseto_tsquery ts_headline ts_rank_cd inet_aton inet_ntoa "
    "now age date time timestamp interval date_trunc date_part date_bin date_add date_sub datediff timediff "
    "timestampdiff timestampadd adddate subdate addtime date_format str_to_date from_unixtime unix_timestamp sysdate "
    "curdate curtime current_date current_time current_timestamp localtime localtimestamp utc_timestamp utc_date "
    "clock_timestamp statement_timestamp transaction_timestamp timeofday to_char to_date to_timestamp to_number year "
    "month day hour minute second week weekday dayofweek dayofyear make_date make_interval make_timestamp "
    "make_timestamptz justify_interval justify_hours justify_days sec_to_time time_to_sec last_day quarter isfinite "
    "array_length array_to_string array_position array_positions array_append array_prepend array_cat array_remove "
    "array_replace array_dims array_ndims array_lower array_upper cardinality unnest generate_series "
    "generate_subscripts "
    "json_extract json_unquote json_value json_length json_keys json_contains json_array json_object json_type "
    "json_pretty json_table json_valid to_json to_jsonb row_to_json jsonb_pretty json_build_object jsonb_build_object "
    "json_build_array jsonb_build_array json_each jsonb_each json_each_text jsonb_each_text json_array_elements "
    "jsonb_array_elements json_array_elements_text jsonb_array_elements_text json_array_length jsonb_array_length "
    "json_object_keys jsonb_object_keys json_typeof jsonb_typeof json_extract_path json_extract_path_text "
    "jsonb_extract_path jsonb_extract_path_text jsonb_path_query jsonb_path_exists jsonb_set json_to_recordset "
    "jsonb_to_recordset json_to_record jsonb_to_record jsonb_strip_nulls xpath xmlelement xmlforest table_to_xml "
    "host hostmask netmask network family masklen broadcast gen_random_uuid uuid uuid_generate_v4 bin_to_uuid "
    "uuid_to_bin "
    "version database schema schemas user current_user session_user system_user current_role current_database "
    "current_schema current_schemas current_query connection_id last_insert_id found_rows row_count charset "
    "current_setting inet_server_addr inet_server_port inet_client_addr inet_client_port txid_current "
    "txid_current_snapshot txid_snapshot_xmin txid_snapshot_xmax txid_status mxid_age obj_description col_description "
    "shobj_description num_nonnulls num_nulls gtid_subtract gtid_subset to_regclass to_regtype to_regproc to_regrole "
    "to_regnamespace row_security_active is_free_lock is_used_lock ps_current_thread_id ps_thread_id format_bytes "
    "format_pico_time format_time format_type width_bucket setseed sqlite_version typeof julianday strftime datetime "
    "pgstattuple pgstattuple_approx pgstatindex pgstatginindex get_raw_page heap_page_items heap_page_item_attrs "
    "page_header bt_metap bt_page_stats bt_page_items bt_index_check bt_index_parent_check verify_heapam time_bucket "
    "hypertable_size chunks_detailed_size show_chunks approximate_row_count "
    # Types with a length, which look like calls.
    "numeric decimal varchar nvarchar character varying bit varbit float double precision int integer bigint smallint "
    "timestamptz timetz binary varbinary vector"
)
_POSTGRES = re.compile(
    r"pg_(?:(?:size|get|ls|is|last|current|stat_get|control|logical_slot_peek|tablespace|read|snapshot)_\w+|\w+_size"
    r"|\w+_is_visible|size_bytes|typeof|column_compression|backend_pid|blocking_pids|safe_snapshot_blocking_pids"
    r"|postmaster_start_time|conf_load_time|wal_lsn_diff|xlog_location_diff|walfile_name|walfile_name_offset|xlogfile_name"
    r"|split_walfile_name|relation_filepath|relation_filenode|filenode_relation|stat_file|show_all_settings"
    r"|show_all_file_settings|hba_file_rules|lock_status|stat_statements|stat_statements_info|encoding_to_char"
    r"|char_to_encoding|describe_object|identify_object|index_column_has_property|isolation_test_session_is_blocked"
    r"|freespace|visibility|visibility_map|visibility_map_summary|check_frozen|check_visible|buffercache_pages"
    r"|buffercache_summary|buffercache_usage_counts|partition_tree|partition_ancestors|partition_root|jit_available"
    r"|listening_channels|notification_queue_usage|available_extensions|available_extension_versions|timezone_names"
    r"|my_temp_schema|options_to_table|xact_commit_timestamp|last_committed_xact|trigger_depth|has_role|input_is_valid"
    r"|backup_start_time|sleep|sleep_for|wal_summary_contents|available_wal_summaries|aios|current_logfile|mcv_list_items)"
    r"|has_\w+_privilege|row_to_\w+|txid_\w+snapshot\w*"
)
_KEYWORDS = word_set(
    "in values and or not xor over using as filter on within group exists any all some from select where having join "
    "union intersect except lateral by when then else case limit offset between like ilike is distinct returning array "
    "row rows range groups cube rollup sets tablesample system bernoulli materialized index key against match escape "
    "to "
    "set into only end with analyze buffers div recursive similar partition unique primary references check default"
)
_CALL = re.compile(r"(?P<name>(?<![\w$.])(?:[\w$]+\s{0,3}\.\s{0,3}){0,3}[\w$]+|\"|`|<[\w -]{1,40}>)\s{0,9}\(")
_NAMED = re.compile(r"(?:\bas|::|,|\bwith|\brecursive|\binto)\s{0,9}$", re.IGNORECASE)
_COLUMNS_OF_A_NAME = re.compile(
    r"\(\s{0,9}[\w$]+(?:\s{0,9},\s{0,9}[\w$]+){0,40}\s{0,9}\)\s{0,9}as\s{1,9}(?:not\s)?\s{0,9}(?:materialized)?\s{0,9}\(",
    re.IGNORECASE,
)


def unknown_functions(statement: str) -> Iterator[str]:
    """Names that `statement`, without its strings and comments, calls, and that are not known to read only."""
    for call in _CALL.finditer(statement):
        name = re.sub(r"\s", "", call["name"]).lower()
        schema, _, bare = name.rpartition(".")
        if schema in ("", "pg_catalog", "sys") and (bare in _GENERAL or bare in _KEYWORDS or _POSTGRES.fullmatch(bare)):
            continue
        before = statement[max(0, call.start() - 20) : call.start()]
        if named := _NAMED.search(before):
            # `AS t(x int)` and `::money(2)` name something; after a comma or WITH only `t(x, y) AS (...)` does.
            if named[0].strip().lower() in ("as", "::"):
                continue
            if _COLUMNS_OF_A_NAME.match(statement, call.end() - 1):
                continue
        yield name
