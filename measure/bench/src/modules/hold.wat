;; Holds every packet that it is shown, each in the next slot.
(module
  (memory (export "memory") 1)
  (global $slot (mut i32) (i32.const 0))
  (func (export "sf_batch") (result i32) (i32.const 4096))
  (func (export "sf_init") (result i32) (i32.const 0))
  (func (export "sf_process") (param $count i32) (param $now i64) (local $record i32) (local $end i32)
    (local.set $record (i32.const 4096))
    (local.set $end (i32.add (i32.const 4096) (i32.shl (local.get $count) (i32.const 6))))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $record) (local.get $end)))
        (i32.store offset=0 (local.get $record) (i32.or (i32.const 4) (i32.shl (global.get $slot) (i32.const 8))))
        (global.set $slot (i32.and (i32.add (global.get $slot) (i32.const 1)) (i32.const 0xffff)))
        (local.set $record (i32.add (local.get $record) (i32.const 64)))
        (br $next)))))
