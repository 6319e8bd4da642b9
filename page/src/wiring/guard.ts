/** Guards: functions of the platform before devices with security groups, which are no objects. */

/** The device that a function guards, and the opener that it does so for where the device has several. */
export interface Guard {
  device: string;
  opener?: string;
}

/** Of a function's name: `groups@DEVICE`, or `groups@DEVICE~FUNCTION:INTERFACE`. */
export function guardOf(name: string): Guard | undefined {
  const found = /^groups@([^~]+)(?:~(.+))?$/.exec(name);
  if (!found) return undefined;
  return found[2] === undefined ? { device: found[1]! } : { device: found[1]!, opener: found[2] };
}

/** What it is, for people. */
export function guardLabel({ device, opener }: Guard): string {
  return `the guard that keeps to the security groups of ${device}${opener === undefined ? "" : `, for ${opener}`}`;
}
