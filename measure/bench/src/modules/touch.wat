;; Grows its memory with each call, touches every page that it got, and begins anew when there is no more.
(module
  (memory (export "memory") 1)
  (func (export "sf_batch") (result i32) (i32.const 4096))
  (func (export "sf_init") (result i32) (i32.const 0))
  (func (export "sf_process") (param $count i32) (param $now i64) (local $at i32) (local $end i32)
    (local.set $at (memory.grow (i32.const 32)))
    (if (i32.eq (local.get $at) (i32.const -1)) (then (unreachable)))
    (local.set $at (i32.shl (local.get $at) (i32.const 16)))
    (local.set $end (i32.add (local.get $at) (i32.const 0x200000)))
    (loop $next
      (i32.store8 (local.get $at) (i32.const 1))
      (local.set $at (i32.add (local.get $at) (i32.const 4096)))
      (br_if $next (i32.lt_u (local.get $at) (local.get $end))))))
