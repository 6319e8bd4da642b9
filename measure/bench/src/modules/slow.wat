;; Works for ten times as long as `work` on each packet, which then goes out by interface 1.
(module
  (memory (export "memory") 1)
  (func (export "sf_batch") (result i32) (i32.const 4096))
  (func (export "sf_init") (result i32) (i32.const 0))
  (func (export "sf_process") (param $count i32) (param $now i64) (local $record i32) (local $end i32) (local $left i32)
    (local.set $record (i32.const 4096))
    (local.set $end (i32.add (i32.const 4096) (i32.shl (local.get $count) (i32.const 6))))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $record) (local.get $end)))
        (local.set $left (i32.const 4000))
        (loop $work
          (br_if $work (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
        (i32.store offset=0 (local.get $record) (i32.const 0x102))
        (local.set $record (i32.add (local.get $record) (i32.const 64)))
        (br $next)))))
