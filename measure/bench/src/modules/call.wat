;; Measures calls: an empty batch costs one call into the guest; the timer makes 10,000 calls out of it.
(module
  (import "superfluid_v1" "counter_add" (func $counter_add (param i32 i64) (result i32)))
  (memory (export "memory") 1)
  (func (export "sf_batch") (result i32) (i32.const 4096))
  (func (export "sf_init") (result i32) (i32.const 0))
  (func (export "sf_process") (param $count i32) (param $now i64))
  (func (export "sf_timer") (param $now i64) (local $left i32)
    (local.set $left (i32.const 2500))
    (loop $next
      (drop (call $counter_add (i32.const 0) (i64.const 1)))
      (drop (call $counter_add (i32.const 0) (i64.const 1)))
      (drop (call $counter_add (i32.const 0) (i64.const 1)))
      (drop (call $counter_add (i32.const 0) (i64.const 1)))
      (br_if $next (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))))
