;; Its timer is always due.
(module
  (import "superfluid_v1" "timer_set" (func $timer_set (param i64) (result i32)))
  (memory (export "memory") 1)
  (func (export "sf_batch") (result i32) (i32.const 4096))
  (func (export "sf_init") (result i32) (call $timer_set (i64.const 1)))
  (func (export "sf_process") (param $count i32) (param $now i64))
  (func (export "sf_timer") (param $now i64) (drop (call $timer_set (i64.const 1)))))
