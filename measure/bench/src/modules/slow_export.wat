;; Passes packets on, and never comes to the end of giving its state away.
(module
  (memory (export "memory") 1)
  (func (export "sf_batch") (result i32) (i32.const 4096))
  (func (export "sf_init") (result i32) (i32.const 0))
  (func (export "sf_export_state") (result i32) (loop $again (br $again)) (i32.const 0))
  (func (export "sf_import_state") (result i32) (i32.const 0))
  (func (export "sf_process") (param $count i32) (param $now i64) (local $record i32) (local $end i32)
    (local.set $record (i32.const 4096))
    (local.set $end (i32.add (i32.const 4096) (i32.shl (local.get $count) (i32.const 6))))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $record) (local.get $end)))
        (i32.store offset=0 (local.get $record) (i32.const 0x102))
        (local.set $record (i32.add (local.get $record) (i32.const 64)))
        (br $next)))))
